//! Command lines that are refused.

use super::*;

#[test]
fn what_is_not_understood_is_an_error_and_nothing_is_done() {
    let directory = Directory::with("a", b"text");
    for (line, said) in [
        ("compress --kep a", "'--keep'"),
        ("compress -Z a", "'-Z'"),
        ("compress --level 99 a", "levels"),
        ("compress --chunk 1 a", "1024"),
        ("compress --placement device a", "--device"),
        ("compress --device emulated:bf9 a", "emulated:bf3"),
        ("compress --device bf2 a", "emulated:bf2"),
        ("decompress --level 1 a", "'--level'"),
    ] {
        let output = directory.run(line);
        assert_eq!(code(&output), 1, "{line}: {}", err(&output));
        assert!(err(&output).contains(said), "{line}: {}", err(&output));
        assert!(output.stdout.is_empty());
        assert_eq!(directory.names(), "a", "{line}");
    }
}
