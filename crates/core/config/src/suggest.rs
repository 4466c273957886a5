//! The word that was probably meant.

/// The word of `known` that `word` was probably meant to be: close to it, letter case and `-`
/// for `_` aside, or the beginning of exactly one.
pub fn suggest<S: AsRef<str>>(word: &str, known: &[S]) -> Option<String> {
    // The distance costs the product of both lengths.
    const LONGEST: usize = 100;
    let plain = |text: &str| text.to_lowercase().replace('-', "_");
    let word = plain(word);
    if word.is_empty() || word.len() > LONGEST {
        return None;
    }
    let close = |name: &&str| {
        let distance = strsim::damerau_levenshtein(&word, &plain(name));
        let allowed = (word.chars().count().max(name.chars().count()) / 3).max(1);
        (distance <= allowed && distance < name.chars().count()).then_some(distance)
    };
    let names = || known.iter().map(AsRef::as_ref).filter(|name: &&str| name.len() <= LONGEST);
    let nearest = names().filter_map(|name| close(&name).map(|distance| (distance, name)));
    if let Some((_, name)) = nearest.min_by_key(|(distance, _)| *distance) {
        return Some(name.to_owned());
    }
    let mut begun = names().filter(|name| plain(name).starts_with(&word));
    match (begun.next(), begun.next()) {
        (Some(only), None) => Some(only.to_owned()),
        _ => None,
    }
}
