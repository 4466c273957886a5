//! Writes the widths of the model's intervals and the page that lists its errors: `make
//! model-figures`. Widths take effect when the crate is rebuilt.

use std::path::Path;

use overside_model::Library;
use overside_model::check::{check, leave_one_out, page, spreads};
use overside_model::facts::Facts;

fn main() -> std::io::Result<()> {
    let (facts, library) = (Facts::published(), Library::published());
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let spreads = spreads(&leave_one_out(facts, library));
    let source = crate_root.join("src/spread.rs");
    let mut text = std::fs::read_to_string(&source)?;
    for (closeness, spread) in &spreads {
        let name = format!("{closeness:?}").to_uppercase();
        let line = format!("pub(crate) const {name}: f64 = ");
        let from = text.find(&line).expect("each closeness has its line") + line.len();
        let to = from + text[from..].find(';').expect("a line ends");
        text.replace_range(from..to, &format!("{:?}", spread.rounded()));
    }
    std::fs::write(&source, text)?;
    let document = crate_root.join("../../../docs/measure/model.md");
    let text = std::fs::read_to_string(&document)?;
    let (before, after) = page::split(&text).expect("docs/measure/model.md has the two marks");
    let generated = page::page(&check(facts, library), &spreads);
    std::fs::write(&document, format!("{before}{generated}{after}"))
}
