//! Placements as people write them.

use overside_placement::{Policy, PolicyError, Shares};

#[test]
fn placements_are_written_and_read_alike() {
    let all = [
        ("cpu", Policy::Cpu),
        ("device", Policy::Device),
        ("split:0", Policy::split(0.0).unwrap()),
        ("split:37.5", Policy::split(37.5).unwrap()),
        ("split:100", Policy::split(100.0).unwrap()),
        ("split:90+10", Policy::Split(Shares::new(&[90.0, 10.0]).unwrap())),
        ("adaptive", Policy::Adaptive),
    ];
    for (text, policy) in all {
        assert_eq!(text.parse(), Ok(policy));
        assert_eq!(policy.to_string(), text);
    }
}

#[test]
fn the_studys_names_are_accepted() {
    for (text, same) in [
        ("fCPU", "cpu"),
        ("cDPU", "device"),
        ("dDPU", "device"),
        ("rDPU", "device"),
        ("cCOMP:40", "split:40"),
        ("cDECOMP:12.5", "split:12.5"),
        ("cREG:90", "split:90"),
    ] {
        let policy: Policy = text.parse().unwrap();
        assert_eq!(policy.to_string(), same);
    }
    assert!("cCOMP".parse::<Policy>().is_err());
}

#[test]
fn what_is_no_placement_is_an_error_that_says_why() {
    for text in ["", "CPU", "split", "split40", "dpu", " cpu"] {
        let error = text.parse::<Policy>();
        assert_eq!(error, Err(PolicyError::Unknown(text.into())));
    }
    for percent in ["", "-1", "101", "nan", "inf", "half", "1e400", "40%"] {
        let error = format!("split:{percent}").parse::<Policy>();
        assert_eq!(error, Err(PolicyError::Percent(percent.into())));
    }
    for shares in ["60+50", "20+20+20+20+20"] {
        let error = format!("split:{shares}").parse::<Policy>();
        assert_eq!(error, Err(PolicyError::Shares(shares.into())));
    }
    assert!("split:90+".parse::<Policy>().is_err());
}

#[test]
fn a_placement_knows_its_targets() {
    let targets = |policy: Policy| (policy.uses_cpu(), policy.uses_device());
    assert_eq!(targets(Policy::Cpu), (true, false));
    assert_eq!(targets(Policy::Device), (false, true));
    assert_eq!(targets(Policy::Adaptive), (true, true));
    assert_eq!(targets(Policy::split(0.0).unwrap()), (true, false));
    assert_eq!(targets(Policy::split(50.0).unwrap()), (true, true));
    assert_eq!(targets(Policy::split(100.0).unwrap()), (false, true));
}
