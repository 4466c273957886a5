//! Names of ports: DPDK's name of a device, and arguments for its driver, as in
//! `net_memif0,role=server,socket=/run/kv.sock`.

use std::fmt::Display;

/// Longest ring of the memif driver, as a power of two.
const MEMIF_RING_MAX_LOG2: u32 = 14;

/// A port as a user names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PortName<'a> {
    pub device: &'a str,
    arguments: &'a str,
}

impl<'a> PortName<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let (device, arguments) = text.split_once(',').unwrap_or((text, ""));
        Self { device, arguments }
    }

    fn is_of(&self, driver: &str) -> bool {
        (self.device.strip_prefix(driver))
            .is_some_and(|number| number.bytes().all(|digit| digit.is_ascii_digit()))
    }

    /// Returns the arguments for the driver: those that the user gave, and the number of queues and
    /// descriptors for drivers that take them as arguments.
    pub(super) fn arguments(&self, queues: u16, rx_descriptors: u16) -> String {
        let log2 = u32::from(rx_descriptors.max(2)).next_power_of_two().ilog2();
        let mut all = vec![];
        if !self.arguments.is_empty() {
            all.push(self.arguments.to_owned());
        }
        let mut add = |key: &str, value: &dyn Display| {
            let is_given = |one: &str| one.split('=').next() == Some(key);
            if !self.arguments.split(',').any(is_given) {
                all.push(format!("{key}={value}"));
            }
        };
        if self.is_of("net_memif") {
            add("rsize", &log2.min(MEMIF_RING_MAX_LOG2));
            // A path is a file, whose directory says who may connect.
            if self.arguments.contains("socket=") {
                add("socket-abstract", &"no");
            }
        } else if self.is_of("net_af_packet") {
            add("qpairs", &queues);
            add("framecnt", &(1 << log2));
        } else if self.is_of("net_af_xdp") {
            add("queue_count", &queues);
        }
        all.join(",")
    }

    /// Returns the requirements of the port's driver, as the end of an error message.
    pub(super) fn remedy(&self) -> &'static str {
        if self.is_of("net_af_packet") {
            "; it needs CAP_NET_RAW (sudo setcap cap_net_raw,cap_net_admin+ep on the program, or root) and an \
             interface of that name that is up"
        } else if self.is_of("net_af_xdp") {
            "; it needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF (root has them), an interface of that name with as \
             many queues as there are cores (ethtool -L), and /sys/fs/bpf"
        } else if self.is_of("net_tap") {
            "; it needs CAP_NET_ADMIN and /dev/net/tun"
        } else if self.device.starts_with("net_") {
            "; is its driver installed? `overside doctor` lists those that are"
        } else {
            "; hardware is named in OVERSIDE_DPDK_ARGS too (docs/core/devices.md)"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PortName;

    #[test]
    fn drivers_are_told_what_they_have_as_arguments_only() {
        let told = |text| PortName::new(text).arguments(2, 200);
        assert_eq!(told("net_memif0"), "rsize=8");
        assert_eq!(told("net_memif0,role=client,rsize=4"), "role=client,rsize=4");
        assert_eq!(told("net_memif0,socket=/s"), "socket=/s,rsize=8,socket-abstract=no");
        let given = "net_memif0,socket=/s,socket-abstract=yes";
        assert_eq!(told(given), "socket=/s,socket-abstract=yes,rsize=8");
        assert_eq!(told("net_af_packet1,iface=a"), "iface=a,qpairs=2,framecnt=256");
        assert_eq!(told("net_af_xdp0,iface=a"), "iface=a,queue_count=2");
        assert_eq!(told("net_tap0,iface=a"), "iface=a");
        assert_eq!(told("net_memifx"), "");
        assert_eq!(told("0000:03:00.0"), "");
        assert_eq!(PortName::new("net_memif0").arguments(1, 1), "rsize=1");
        assert_eq!(PortName::new("net_memif0").arguments(1, 65_535), "rsize=14");
    }
}
