//! Links over TCP keep what every transport promises.

use overside_link::conformance::Ends;
use overside_link::tcp;
use overside_link::verbs::LinkConfig;

fn link(host: &LinkConfig, dpu: &LinkConfig) -> Ends {
    let (host, dpu) = tcp::pair(host, dpu).expect("a link over loopback");
    (Box::new(host), Box::new(dpu))
}

overside_link::link_conformance_suite!(link);
