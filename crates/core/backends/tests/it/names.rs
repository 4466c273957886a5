//! Names that become devices, and messages about those that do not.

use overside_backends::{
    BACKENDS, OpenError, Options, Severity, closest, list, open, profile_of, relevant_options,
};
use overside_device::{Provenance, Timing};
use overside_testkit::assert_contains;

fn refused(name: &str) -> OpenError {
    match open(name, &Options::default()) {
        Err(error) => error,
        Ok(device) => panic!("{name:?} opened {:?}", device.info()),
    }
}

#[test]
fn a_device_has_the_name_it_was_asked_for_by() {
    for described in list() {
        let device = open(&described.name, &Options::default()).unwrap();
        assert_eq!(device.info().name, described.name);
        let emulated = profile_of(&described.name).is_some();
        let provenance = if emulated { Provenance::Emulated } else { Provenance::Measured };
        assert_eq!(device.info().provenance, provenance);
        assert_eq!(device.capabilities().iter().count(), described.capabilities.len());
    }
}

#[test]
fn a_card_is_not_its_emulation() {
    let error = refused("bf2");
    assert!(matches!(error, OpenError::BareCard { .. }), "{error}");
    assert_contains(&error, "did you mean \"emulated:bf2\"");
}

#[test]
fn a_profile_without_engines_is_no_device_and_says_why() {
    let listed: Vec<_> = list().into_iter().map(|described| described.name).collect();
    for name in ["bf1", "bf2-200g", "host-idio", "octeon-tx2"] {
        assert!(!listed.contains(&format!("emulated:{name}")), "{listed:?}");
        for asked in [name.to_owned(), format!("emulated:{name}")] {
            let error = refused(&asked);
            assert!(matches!(error, OpenError::Unavailable { .. }), "{error}");
            let text = error.to_string();
            assert_contains(&text, &format!("nothing of {name} can be emulated: "));
        }
    }
}

#[test]
fn one_core_of_a_card_is_a_device_and_one_engine_of_it_is_not() {
    let device = open("emulated:bf2-cores:1", &Options::default()).unwrap();
    assert_contains(&device.info().description, "one of the card's cores");
    for name in ["emulated:bf2:1", "emulated:bf2-soc:1", "emulated:bf2-cores:2"] {
        assert_contains(refused(name), name);
    }
}

#[test]
fn an_unknown_name_is_told_what_there_is() {
    for (name, meant) in
        [("cpus", "cpu"), ("emulated:bf4", "emulated:bf"), ("emulatd:bf3", "emulated:bf3")]
    {
        let error = refused(name).to_string();
        assert_contains(&error, &format!("did you mean \"{meant}"));
    }
    let error = refused("doca:0").to_string();
    assert_contains(
        &error,
        "there are: cpu, emulated:bf2, emulated:bf2-cores, emulated:bf2-cores:1, emulated:bf2-older-doca, emulated:bf2-soc, emulated:bf3",
    );
    assert!(matches!(refused(""), OpenError::Unknown { .. }));
    assert!(matches!(refused("emulated:"), OpenError::Unknown { .. }));
}

#[test]
fn cores_that_are_not_there_make_the_cpu_unavailable() {
    let options = Options { cores: Some(vec![1023]), ..Options::default() };
    let error = open("cpu", &options).err().unwrap();
    assert!(matches!(error, OpenError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("1023"), "{error}");
}

#[test]
fn only_what_matters_to_a_device_tells_it_from_another() {
    let options = Options { threads: 3, cores: Some(vec![0]), ..Options::default() };
    let emulated = relevant_options(&options, "emulated:bf2");
    assert_eq!(emulated, Options { timing: Some(Timing::Replay), ..Options::default() });
    let paced = Options { timing: Some(Timing::Paced), ..options.clone() };
    assert_eq!(relevant_options(&paced, "cpu"), options);
    assert_ne!(relevant_options(&paced, "emulated:bf2"), emulated);
}

#[test]
fn timing_is_what_was_asked_for() {
    for timing in [Timing::Replay, Timing::Paced, Timing::Functional] {
        let options = Options { timing: Some(timing), ..Options::default() };
        assert_eq!(open("emulated:bf3", &options).unwrap().info().timing, timing);
        assert_eq!(open("cpu", &options).unwrap().info().timing, Timing::Real);
    }
}

#[test]
fn a_suggestion_is_near() {
    let known = ["compress".to_string(), "match".to_string()];
    assert_eq!(closest("macth", &known).as_deref(), Some("match"));
    assert_eq!(closest("elephant", &known), None);
}

#[test]
fn dpdk_devices_are_listed_with_what_they_can_do_or_with_what_is_missing() {
    let dpdk = BACKENDS.iter().find(|backend| backend.prefix() == "dpdk");
    for described in dpdk.unwrap().list() {
        let opened = open(&described.name, &Options::default());
        match (&described.unavailable, opened) {
            (None, Ok(device)) => {
                assert_eq!(device.info().name, described.name);
                assert!(!described.capabilities.is_empty());
            }
            (Some(reason), Err(error)) => {
                assert!(reason.len() > 20, "{reason}");
                // The star stands for all of them.
                if described.name != "dpdk:*" {
                    assert!(error.to_string().contains(reason.as_str()), "{error}");
                }
            }
            (listed, opened) => panic!("{listed:?} and {:?}", opened.err()),
        }
    }
    let error = refused("dpdk:compress_isla");
    match error {
        OpenError::Unknown { suggestion, .. } => {
            assert_eq!(suggestion.as_deref(), Some("dpdk:compress_isal"));
        }
        OpenError::Unavailable { reason, .. } => assert!(reason.contains("apt-get"), "{reason}"),
        other => panic!("{other}"),
    }
}

#[test]
fn each_backend_lists_its_own_names_and_no_others() {
    for backend in BACKENDS {
        let listed = backend.list().into_iter().map(|device| device.name);
        for name in listed.chain(backend.known_names()) {
            let owners: Vec<_> =
                (BACKENDS.iter()).filter(|one| one.owns(&name)).map(|one| one.prefix()).collect();
            assert_eq!(owners, [backend.prefix()], "{name}");
        }
        assert!(backend.owns(&backend.wildcard()));
        let found = backend.doctor();
        // One for each device, and what else there is to say.
        assert!(found.len() >= backend.list().len(), "{found:?}");
        let usable = found.iter().filter(|one| one.level == Severity::Ok).count();
        let opened = (backend.list().iter()).filter(|device| device.unavailable.is_none()).count();
        assert_eq!(usable, opened, "{found:?}");
    }
}
