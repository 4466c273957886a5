//! The machine as a run records it: everything that may explain a figure.
//!
//! A value that cannot be read is null, and a key with the suffix `_reason` beside it has the
//! reason. Nothing here changes anything, and nothing identifies the machine or its user: no host
//! name, no addresses, no serial numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use overside_ops::{Operation, variants};
use serde_json::{Map, Value, json};

const CPU: &str = "/sys/devices/system/cpu";
const HYPERVISOR: &str = "/sys/hypervisor/type";
/// Instruction sets that the libraries choose their code by.
#[rustfmt::skip]
const FLAGS: &[&str] = &[
    "sse4_2", "avx", "avx2", "bmi2", "pclmulqdq", "vpclmulqdq", "sha_ni", "aes", "vaes", "gfni",
    "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vbmi", "avx512_vbmi2", "crc32", "pmull",
    "sha1", "sha2", "sha3", "asimd", "sve", "sve2",
];

/// Options of the kernel's command line that change timing; the others are private.
#[rustfmt::skip]
const BOOT_OPTIONS: &[&str] = &[
    "isolcpus", "nohz_full", "rcu_nocbs", "mitigations", "intel_pstate", "amd_pstate",
    "processor.max_cstate", "intel_idle.max_cstate", "idle", "nosmt", "hugepages", "hugepagesz",
    "default_hugepagesz", "iommu", "intel_iommu", "amd_iommu",
];

type Reading = Result<Value, String>;

/// The machine that this process runs on, as `nodes/NAME.json` of a run has it.
pub(super) fn environment() -> Map<String, Value> {
    let machine = json!({
        "schema": "node/1",
        "name": super::LOCAL,
        "cpu": cpu(),
        "memory": memory(),
        "kernel": kernel(),
        "limits": limits(),
        "software": software(),
        "load_before": load(),
    });
    match machine {
        Value::Object(machine) => machine,
        _ => Map::new(),
    }
}

fn topic<const N: usize>(facts: [(&str, Reading); N]) -> Value {
    let mut topic = Map::new();
    for (key, found) in facts {
        match found {
            Ok(value) => drop(topic.insert(key.into(), value)),
            Err(reason) => {
                topic.insert(key.into(), Value::Null);
                topic.insert(format!("{key}_reason"), reason.into());
            }
        }
    }
    Value::Object(topic)
}

fn cpu() -> Value {
    let cpu = Path::new(CPU);
    let info = entries("/proc/cpuinfo");
    let entry = |keys: &[&str]| {
        let found = keys.iter().find_map(|key| info.get(*key));
        found.map(|text| text.as_str().into()).ok_or_else(unsaid)
    };
    let frequency = cpu.join("cpu0/cpufreq");
    let usable = usable();
    topic([
        ("architecture", Ok(std::env::consts::ARCH.into())),
        ("model", entry(&["model name", "Model"]).or_else(|_| arm_model(&info))),
        ("microcode", entry(&["microcode"])),
        ("flags", flags(&info)),
        ("online", text(cpu.join("online")).map(|text| list(&text).len().into())),
        ("usable", usable),
        ("cores", distinct(&["core_cpus_list", "thread_siblings_list"])),
        ("sockets", distinct(&["package_cpus_list", "core_siblings_list"])),
        ("smt", text(cpu.join("smt/active")).map(|text| (text == "1").into())),
        ("caches", caches(&cpu.join("cpu0/cache"))),
        ("governor", text(frequency.join("scaling_governor")).map(Into::into)),
        ("driver", text(frequency.join("scaling_driver")).map(Into::into)),
        ("frequency_min_khz", number(frequency.join("scaling_min_freq"))),
        ("frequency_max_khz", number(frequency.join("scaling_max_freq"))),
        ("turbo", turbo()),
        ("mitigations", mitigations()),
        ("isolated", text(cpu.join("isolated")).map(|text| list(&text).into())),
        ("virtualised", Ok(is_virtual(&info).into())),
        ("hypervisor", text(HYPERVISOR).map(Into::into)),
        (
            "numa_nodes",
            text("/sys/devices/system/node/online").map(|text| list(&text).len().into()),
        ),
    ])
}

fn memory() -> Value {
    let info = entries("/proc/meminfo");
    let figure = |name: &str| -> Result<u64, String> {
        let text = info.get(name).and_then(|text| text.split(' ').next());
        let number = text.and_then(|text| text.parse::<u64>().ok());
        number.ok_or_else(unsaid)
    };
    let bytes = |name: &str| figure(name).map(|kib| (kib << 10).into());
    let swap = figure("SwapTotal").and_then(|all| {
        let free = figure("SwapFree")?;
        Ok((all.saturating_sub(free) << 10).into())
    });
    topic([
        ("total_bytes", bytes("MemTotal")),
        ("available_bytes", bytes("MemAvailable")),
        ("swap_used_bytes", swap),
        ("huge_page_bytes", bytes("Hugepagesize")),
        ("huge_pages", figure("HugePages_Total").map(Into::into)),
        (
            "transparent_huge_pages",
            text("/sys/kernel/mm/transparent_hugepage/enabled").map(|text| chosen(&text).into()),
        ),
        ("page_bytes", Ok(rustix::param::page_size().into())),
    ])
}

fn kernel() -> Value {
    let distribution = text("/etc/os-release").and_then(|text| {
        let named = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
        named.map(|name| name.trim_matches('"').into()).ok_or_else(unsaid)
    });
    topic([
        ("release", text("/proc/sys/kernel/osrelease").map(Into::into)),
        ("version", text("/proc/sys/kernel/version").map(Into::into)),
        (
            "clock",
            text("/sys/devices/system/clocksource/clocksource0/current_clocksource")
                .map(Into::into),
        ),
        ("aslr", number("/proc/sys/kernel/randomize_va_space")),
        ("boot_options", text("/proc/cmdline").map(|text| boot_options(&text).into())),
        ("distribution", distribution),
    ])
}

/// Returns the limits that control groups impose (CPU quota in cores, memory in bytes), and the
/// kind of container.
fn limits() -> Value {
    topic([
        (
            "cpu_quota_cores",
            least("cpu", cpu_quota).map(|limit| limit.map_or("none".into(), Into::into)),
        ),
        (
            "memory_limit_bytes",
            least("memory", memory_limit)
                .map(|limit| limit.map_or("none".into(), |bytes| (bytes as u64).into())),
        ),
        ("container", Ok(container().into())),
    ])
}

fn container() -> String {
    let known = [("/.dockerenv", "docker"), ("/run/.containerenv", "podman")];
    match known.iter().find(|(path, _)| Path::new(path).exists()) {
        Some((_, name)) => (*name).to_owned(),
        // By systemd's convention.
        None => std::env::var("container").unwrap_or_else(|_| "none".into()),
    }
}

fn cpu_quota(group: &Path) -> Option<f64> {
    let (limit, period) = match text(group.join("cpu.max")) {
        Ok(both) => {
            let (limit, period) = both.split_once(' ')?;
            (limit.parse::<f64>().ok()?, period.parse::<f64>().ok()?)
        }
        Err(_) => {
            let figure = |name: &str| text(group.join(name)).ok()?.parse::<f64>().ok();
            (figure("cpu.cfs_quota_us")?, figure("cpu.cfs_period_us")?)
        }
    };
    (limit > 0.0 && period > 0.0).then(|| limit / period)
}

fn memory_limit(group: &Path) -> Option<f64> {
    let limit = text(group.join("memory.max"))
        .or_else(|_| text(group.join("memory.limit_in_bytes")))
        .ok()?;
    // Close to 2^63 is how the older interface says that there is none.
    limit.parse::<f64>().ok().filter(|bytes| *bytes < 2_f64.powi(60))
}

/// The least limit from this process's group in a controller's tree, or in the unified one, up to
/// the root; a group without the file has none.
fn least(controller: &str, read: impl Fn(&Path) -> Option<f64>) -> Result<Option<f64>, String> {
    let groups = text("/proc/self/cgroup")?;
    let of_tree = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (names, path) = (parts.next()?, parts.next()?);
        let path = path.trim_start_matches('/');
        let root = Path::new("/sys/fs/cgroup");
        let is_own = names.split(',').any(|name| name == controller);
        match is_own {
            true => Some((0, root.join(controller).join(path))),
            false => names.is_empty().then(|| (1, root.join(path))),
        }
    };
    let own = groups.lines().filter_map(of_tree).min().ok_or_else(unsaid)?.1;
    let groups = own.ancestors();
    let groups = groups.take_while(|group| group.starts_with("/sys/fs/cgroup"));
    Ok(groups.filter_map(read).reduce(f64::min))
}

/// The release, and the libraries that can be measured.
fn software() -> Value {
    let mut libraries = BTreeMap::new();
    for operation in Operation::all() {
        for variant in variants(operation) {
            libraries.insert(variant.library, variant.version);
        }
    }
    topic([("overside", Ok(env!("CARGO_PKG_VERSION").into())), ("libraries", Ok(json!(libraries)))])
}

fn load() -> Value {
    let average = text("/proc/loadavg").and_then(|text| {
        let first = text.split(' ').next().and_then(|text| text.parse::<f64>().ok());
        first.map(Into::into).ok_or_else(unsaid)
    });
    topic([("load_1min", average)])
}

fn unsaid() -> String {
    "this machine does not say".into()
}

fn text(path: impl AsRef<Path>) -> Result<String, String> {
    let path = path.as_ref();
    match fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).trim().to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(format!("{} does not exist", path.display()))
        }
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

fn number(path: impl AsRef<Path>) -> Reading {
    let text = text(path)?;
    let number: u64 = text.parse().map_err(|error| format!("cannot be understood: {error}"))?;
    Ok(number.into())
}

/// The first of each of a file's `name: value`.
fn entries(path: &str) -> BTreeMap<String, String> {
    let mut entries = BTreeMap::new();
    for line in text(path).unwrap_or_default().lines() {
        if let Some((name, value)) = line.split_once(':') {
            let name = name.trim().to_owned();
            entries.entry(name).or_insert_with(|| value.trim().to_owned());
        }
    }
    entries
}

fn arm_model(info: &BTreeMap<String, String>) -> Reading {
    let keys = ["CPU implementer", "CPU part", "CPU variant", "CPU revision"];
    let parts: Vec<_> =
        keys.iter().filter_map(|key| Some(format!("{} {}", &key[4..], info.get(*key)?))).collect();
    match parts.is_empty() {
        true => Err(unsaid()),
        false => Ok(parts.join(" ").into()),
    }
}

fn flags(info: &BTreeMap<String, String>) -> Reading {
    let all = info.get("flags").or_else(|| info.get("Features"));
    let there: BTreeSet<_> = all.ok_or_else(unsaid)?.split(' ').collect();
    let known = FLAGS.iter().filter(|flag| there.contains(**flag));
    Ok(known.copied().collect::<Vec<_>>().into())
}

fn is_virtual(info: &BTreeMap<String, String>) -> bool {
    let flags = info.get("flags").map_or("", String::as_str);
    flags.split(' ').any(|flag| flag == "hypervisor")
        || Path::new(HYPERVISOR).exists()
        || Path::new("/proc/xen").exists()
}

fn usable() -> Reading {
    let set = rustix::thread::sched_getaffinity(None).map_err(|error| error.to_string())?;
    let max = rustix::thread::CpuSet::MAX_CPU;
    let cores: Vec<_> = (0..max).filter(|core| set.is_set(*core)).collect();
    Ok(cores.into())
}

/// `0-3,8` as numbers.
fn list(text: &str) -> Vec<u64> {
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u64>(), last.parse::<u64>()) {
            numbers.extend(first..=last.min(first + 65_536));
        }
    }
    numbers
}

fn numbered(directory: &str, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .filter(|entry| {
            let name = entry.file_name();
            let rest = name.to_str().and_then(|name| name.strip_prefix(prefix));
            rest.is_some_and(|rest| rest.parse::<u32>().is_ok())
        })
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

/// Returns the number of distinct sets of sibling cores, from the first topology file among `names`
/// that exists.
fn distinct(names: &[&str]) -> Reading {
    for name in names {
        let cores = numbered(CPU, "cpu").into_iter();
        let sets: BTreeSet<_> =
            cores.filter_map(|core| text(core.join("topology").join(name)).ok()).collect();
        if !sets.is_empty() {
            return Ok(sets.len().into());
        }
    }
    Err(format!("{CPU}/cpu0/topology/{} does not exist", names[0]))
}

fn caches(directory: &Path) -> Reading {
    let mut found = Vec::new();
    for index in numbered(&directory.to_string_lossy(), "index") {
        let size = text(index.join("size"))?;
        let digits = size.trim_end_matches(['K', 'M', 'G']);
        let unit = match &size[digits.len()..] {
            "K" => 1_u64 << 10,
            "M" => 1 << 20,
            "G" => 1 << 30,
            _ => 1,
        };
        found.push(json!({
            "level": number(index.join("level"))?,
            "type": text(index.join("type"))?.to_lowercase(),
            "size_bytes": digits.parse::<u64>().map_err(|error| error.to_string())? * unit,
            "shared_by": list(&text(index.join("shared_cpu_list"))?).len(),
        }));
    }
    Ok(found.into())
}

fn turbo() -> Reading {
    let cpu = Path::new(CPU);
    let no_turbo = text(cpu.join("intel_pstate/no_turbo")).map(|text| (text == "0").into());
    no_turbo.or_else(|_| text(cpu.join("cpufreq/boost")).map(|text| (text == "1").into()))
}

/// Returns the state of each CPU vulnerability, mitigated or not; those that do not affect this
/// machine are omitted.
fn mitigations() -> Reading {
    let directory = Path::new(CPU).join("vulnerabilities");
    let entries =
        fs::read_dir(&directory).map_err(|_| format!("{} does not exist", directory.display()))?;
    let mut found = BTreeMap::new();
    for entry in entries.flatten() {
        let state = text(entry.path())?;
        if state != "Not affected" {
            found.insert(entry.file_name().to_string_lossy().into_owned(), state);
        }
    }
    Ok(json!(found))
}

fn boot_options(line: &str) -> Vec<&str> {
    let name = |option: &str| option.split('=').next().unwrap_or_default().to_owned();
    let options = line.split(' ');
    options.filter(|option| BOOT_OPTIONS.contains(&name(option).as_str())).collect()
}

fn chosen(text: &str) -> String {
    let inner = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inner.map_or_else(|| text.to_owned(), |(word, _)| word.to_owned())
}
