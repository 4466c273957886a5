//! The cores that a server has.

use overside_kv_offload::design::CORES_MAX;

/// Number or list of the cores that serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cores {
    /// A number of threads, placed by the system.
    Count(usize),
    /// A thread on each of these.
    List(Vec<usize>),
}

impl Cores {
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Count(count) => *count,
            Self::List(cores) => cores.len(),
        }
    }
}

/// `2`, or `0,2`.
pub(super) fn parse(text: &str) -> Result<Cores, String> {
    let wrong = || format!("a number from 1 to {CORES_MAX}, or different cores as 0,2,3");
    let number = |text: &str| text.parse::<usize>().map_err(|_| wrong());
    let cores = match text.contains(',') {
        false => Cores::Count(number(text)?),
        true => Cores::List(text.split(',').map(number).collect::<Result<_, _>>()?),
    };
    let is_repeated = match &cores {
        Cores::Count(_) => false,
        Cores::List(list) => (1..list.len()).any(|at| list[..at].contains(&list[at])),
    };
    match (1..=CORES_MAX).contains(&cores.count()) && !is_repeated {
        true => Ok(cores),
        false => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Cores, parse};

    #[test]
    fn cores_are_a_number_or_a_list() {
        assert_eq!(parse("2"), Ok(Cores::Count(2)));
        assert_eq!(parse("3,1"), Ok(Cores::List(vec![3, 1])));
        for wrong in ["0", "", "a", "1,", "1,1", "65", "-1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
