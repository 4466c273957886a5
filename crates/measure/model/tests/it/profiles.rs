//! Profiles are read strictly, and errors name their problem.

use overside_model::{CostError, Initiator, Profile, Work, cost, profile, profiles_with};

use crate::ask::{assert_says, refusals};

const SMALL: &str = include_str!("small.toml");

#[test]
fn the_built_in_profiles_are_there() {
    let all = profiles_with(None).unwrap();
    let names: Vec<_> = all.iter().map(|profile| profile.name.as_str()).collect();
    let expected = [
        "bf1",
        "bf2",
        "bf2-200g",
        "bf2-cores",
        "bf2-older-doca",
        "bf2-soc",
        "bf2-vpi",
        "bf3",
        "bf3-8c",
        "bf3-cores",
        "bf3-doca22",
        "bf3-soc",
        "host-bitar",
        "host-bitar-partition",
        "host-coproc-bf2",
        "host-coproc-bf3",
        "host-dpbento",
        "host-dpukv",
        "host-idio",
        "octeon-tx2",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_card_driven_by_its_own_cores_has_a_profile_of_its_own() {
    let deflate = Work::new("decompress-deflate".parse().unwrap(), 1 << 20, 2 << 20);
    for name in ["bf2", "bf3"] {
        let (host, soc) = (profile(name).unwrap(), profile(&format!("{name}-soc")));
        let soc = soc.unwrap();
        let whose = (host.initiator, soc.initiator);
        assert_eq!(whose, (Initiator::Host, Initiator::Soc));
        // Nobody published how fast the engine reaches the card's own memory.
        let missing = cost(&soc, &deflate).unwrap().missing;
        assert_says(&missing, "link");
        assert!(soc.operation("match-count".parse().unwrap()).is_none());
    }
}

#[test]
fn bluefield_2_does_deflate_both_ways_and_matching_up_to_its_limits() {
    let bf2 = profile("bf2").unwrap();
    for name in ["compress-deflate", "decompress-deflate"] {
        let entry = bf2.operation(name.parse().unwrap()).unwrap();
        assert_eq!(entry.max_source_bytes(), 128 << 20, "{name}");
        assert_eq!(entry.max_destination_bytes(), 128 << 20, "{name}");
    }
    for name in ["match-search", "match-count", "match-bitmap"] {
        assert_eq!(bf2.operation(name.parse().unwrap()).unwrap().max_source_bytes(), 16383);
    }
    for name in ["compress-gzip", "decompress-zlib", "compress-lz4", "decompress-lz4-block"] {
        assert!(bf2.operation(name.parse().unwrap()).is_none(), "{name}");
    }
}

#[test]
fn bluefield_3_only_decompresses() {
    let bf3 = profile("bf3").unwrap();
    for operation in overside_ops::Operation::all() {
        let expected = ["decompress-deflate", "decompress-lz4-block"];
        let does = bf3.operation(operation);
        assert_eq!(does.is_some(), expected.contains(&operation.to_string().as_str()));
        assert!(does.is_none_or(|entry| entry.max_source_bytes() == 2 << 20));
    }
    let compress = Work::new("compress-deflate".parse().unwrap(), 4096, 2048);
    assert!(matches!(cost(&bf3, &compress), Err(CostError::Unsupported { .. })));
    let refusal = cost(&bf3, &compress).unwrap_err().to_string();
    assert_eq!(refusal, "bf3 cannot compress-deflate: it has no compression engine");
    let long = Work::new("decompress-deflate".parse().unwrap(), 4096, (2 << 20) + 1);
    assert!(matches!(cost(&bf3, &long), Err(CostError::TooLong { what: "a destination", .. })));
}

#[test]
fn a_refusal_gives_the_reason_that_concerns_it() {
    let absent = "[absent]\nhash = \"none\"\nhash-xxh3 = \"too new\"\n[sources]";
    let small = Profile::parse("my.toml", &SMALL.replacen("[sources]", absent, 1)).unwrap();
    let why = |name: &str| small.why_absent(name.parse().unwrap());
    assert_eq!(why("hash-crc32"), Some("none"));
    assert_eq!(why("hash-xxh3"), Some("too new"));
    assert_eq!(why("compress-lz4"), None);
    assert_eq!(why("copy"), None);
}

#[test]
fn an_engine_that_a_profile_does_not_mention_has_no_prediction() {
    let refused = |profile: &Profile, name: &str| {
        cost(profile, &Work::new(name.parse().unwrap(), 4096, 4096)).unwrap_err()
    };
    // It copies, and says nothing about other engines.
    let small = Profile::parse("my.toml", SMALL).unwrap();
    let error = refused(&small, "compress-lz4");
    assert!(matches!(error, CostError::Unpublished { .. }), "{error}");
    let absent = "[absent]\ncompress = \"none\"\n[sources]";
    let absent = Profile::parse("my.toml", &SMALL.replacen("[sources]", absent, 1)).unwrap();
    let bf2 = profile("bf2").unwrap();
    for (profile, name) in [
        (&absent, "compress-lz4"),
        // Its engine does other formats.
        (&bf2, "decompress-lz4-block"),
        // No card is expected to have an engine for it.
        (&small, "hash-crc32"),
    ] {
        let error = refused(profile, name);
        assert!(matches!(error, CostError::Unsupported { .. }), "{error}");
    }
}

#[test]
fn a_profile_that_is_not_right_says_where_and_what_to_do() {
    Profile::parse("my.toml", SMALL).unwrap();
    // Text of a correct profile, and what stands there instead.
    let cases = [
        ("profile/1", "profile/9"),
        ("facts = [\"a.rate\"]", ""),
        ("[\"a.rate\"]", "[\"a.speed\"]"),
        ("[\"a.rate\"]", "[\"b.rate\"]"),
        ("value = 2\n", "value = -2\n"),
        ("value = 2\n", "value = nan\n"),
        ("value = 2\n", "value = 9\nhigh = 3\n"),
        ("value = 2\n", ""),
        ("\"GB/s\"", "\"ms\""),
        ("\"copy\"", "\"cpoy\""),
        ("\"copy\"", "\"copy\", \"copy\""),
        ("name = \"small\"", "name = \"../x\""),
        ("value = 1\n", "value = 1e30\n"),
        ("\"a.max\" =", "\"a.other\" = \"\"\n\"a.max\" ="),
        ("value = 1\n", "value = 1\ntypo = 1\n"),
        ("\"MiB\"", "\"Mib\""),
        ("schema =", "scheme ="),
        ("[sources]", "[absent]\ncopy = \"no\"\n[sources]"),
        ("[sources]", "[absent]\nhsah = \"no\"\n[sources]"),
        ("[sources]", "[absent]\nhash = \" \"\n[sources]"),
    ];
    let complaints = cases.map(|(from, to)| {
        assert!(SMALL.contains(from), "{from:?}");
        let error = Profile::parse("my.toml", &SMALL.replacen(from, to, 1)).unwrap_err();
        (format!("{from:?} -> {to:?}"), error)
    });
    insta::assert_snapshot!(refusals(complaints));
}

#[test]
fn a_directory_adds_and_replaces_profiles() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("small.toml"), SMALL).unwrap();
    let own_bf2 = SMALL.replace("name = \"small\"", "name = \"bf2\"");
    std::fs::write(directory.path().join("bf2.toml"), own_bf2).unwrap();
    std::fs::write(directory.path().join("README"), "not a profile").unwrap();
    let all = profiles_with(Some(directory.path())).unwrap();
    let called = |name: &str| all.iter().filter(|one| one.name == name).collect::<Vec<_>>();
    let (bf2, small) = (called("bf2"), called("small"));
    assert_eq!((bf2.len(), small.len()), (1, 1));
    assert_eq!(bf2[0].card, small[0].card);
    assert_eq!(all.len(), profiles_with(None).unwrap().len() + 1);
}

#[test]
fn files_that_cannot_be_profiles_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other.toml");
    std::fs::write(&path, SMALL).unwrap();
    let error = profiles_with(Some(directory.path())).unwrap_err().to_string();
    assert!(error.contains("other.toml") && error.contains("small.toml"), "{error}");

    std::fs::write(&path, vec![b'#'; (1 << 20) + 1]).unwrap();
    let error = profiles_with(Some(directory.path())).unwrap_err();
    assert!(error.problem.contains("longer than 1048576"), "{error}");

    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    let error = profiles_with(Some(directory.path())).unwrap_err();
    assert!(error.problem.contains("not UTF-8"), "{error}");

    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    let error = profiles_with(Some(directory.path())).unwrap_err().to_string();
    assert!(error.contains("not a regular file"), "{error}");

    let error = profiles_with(Some(&directory.path().join("absent"))).unwrap_err().to_string();
    assert!(error.contains("absent"), "{error}");
}

#[test]
fn an_unknown_profile_lists_the_known_ones() {
    let error = profile("bf9").unwrap_err().to_string();
    assert!(error.contains("bf9") && error.contains("bf1, bf2, bf2-200g, bf2-cores"), "{error}");
}
