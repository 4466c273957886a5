//! Names of the transports that a connection of UCX's uses.

/// Names of the transports in UCX's description of a connection, such as `posix/memory, cma/memory`, each once, in its
/// order. Every lane is a line of the form `# lane[0]: 2:posix/memory.0 md[1] -> ...`.
pub(super) fn transports(text: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for line in text.lines() {
        let line = line.trim_start_matches(['#', ' ']);
        let Some((_, lane)) = line.strip_prefix("lane[").and_then(|rest| rest.split_once("]:"))
        else {
            continue;
        };
        // The number of the resource stands before it, and that of the path behind it.
        let name = lane.split_whitespace().next().unwrap_or_default();
        let name = name.split_once(':').map_or(name, |(_, name)| name);
        let name = name.rsplit_once('.').map_or(name, |(name, _)| name);
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    match names.is_empty() {
        true => "transports that it does not name".into(),
        false => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_named_once() {
        let text = "#\n# UCP endpoint \n#\n#               peer: x\n\
            #                 lane[0]:  1:posix/memory.0 md[1]      -> md[1]/posix/sysdev[255]\n\
            #                 lane[1]:  6:cma/memory.0 md[4]        -> md[4]/cma/sysdev[255]\n\
            #                 lane[2]:  6:cma/memory.0 md[4]        -> md[4]/cma/sysdev[255]\n";
        assert_eq!(transports(text), "posix/memory, cma/memory");
        assert_eq!(transports(""), "transports that it does not name");
    }
}
