//! Which names there are.

/// This machine's cores.
pub(crate) const CPU: &str = "cpu";
/// What stands before a profile's name.
const EMULATED: &str = "emulated:";

/// The profile that the name of an emulated device asks for; `None` for other devices.
pub fn profile_of(name: &str) -> Option<&str> {
    name.strip_prefix(EMULATED)
}

/// The emulated device of a profile.
pub(crate) fn emulated(profile: &str) -> String {
    format!("{EMULATED}{profile}")
}

/// DPDK's name of a device that it drives; `None` for other devices.
pub(crate) fn dpdk_instance(name: &str) -> Option<&str> {
    name.strip_prefix(overside_backend_dpdk::PREFIX)
}

/// The device that DPDK calls `instance`.
pub(crate) fn dpdk(instance: &str) -> String {
    format!("{}{instance}", overside_backend_dpdk::PREFIX)
}

/// The agent and its device that the name of an agent's device asks for, as in `dpu0/cpu`; `None`
/// for devices of this machine.
pub fn agents_device(name: &str) -> Option<(&str, &str)> {
    name.split_once('/')
}

/// The one of `known` that `name` may have been meant to be.
pub fn closest(name: &str, known: &[String]) -> Option<String> {
    let distance = |one: &&String| strsim::damerau_levenshtein(name, one);
    known
        .iter()
        .min_by_key(distance)
        .filter(|one| distance(one) <= 2.max(one.len() / 4))
        .cloned()
}
