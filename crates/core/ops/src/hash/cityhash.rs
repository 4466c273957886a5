//! CityHash 1.1, Google's own code.

use cityhash_sys::{city_hash_32, city_hash_64, city_hash_128};

use super::function::{HashLibrary, function};
use crate::variant::Library;

pub(super) const LIBRARY: HashLibrary = HashLibrary {
    library: Library {
        name: "cityhash",
        label: "cityhash",
        title: "Google CityHash",
        version: || "1.1.1".into(),
        simd: false,
    },
    functions: &[
        function!(City32, city_hash_32),
        function!(City64, city_hash_64),
        function!(City128, city_hash_128),
    ],
};
