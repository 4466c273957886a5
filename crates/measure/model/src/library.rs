//! Profiles that may be used to answer a question, perhaps without some of the facts.

mod leave_out;

use std::sync::LazyLock;

use crate::facts::{Facts, Figure};
use crate::{Evidence, Profile, profiles_with};

/// The profiles, without those left out.
#[derive(Clone, Debug)]
pub struct Library {
    profiles: Vec<Profile>,
}

impl Library {
    /// Creates a library of these profiles.
    pub fn new(profiles: Vec<Profile>) -> Self {
        Self { profiles }
    }

    /// Returns the library of the built-in profiles, which is read once.
    ///
    /// # Panics
    /// Never: a test reads them.
    pub fn published() -> &'static Self {
        static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
            Library::new(profiles_with(None).expect("the built-in profiles are read by a test"))
        });
        &LIBRARY
    }

    /// Creates a library of all profiles: the built-in ones and the user's own.
    ///
    /// # Errors
    /// As [`crate::profiles`].
    pub fn installed() -> Result<Self, overside_config::Error> {
        Ok(Self::new(crate::profiles()?))
    }

    /// All profiles, by name.
    pub fn profiles(&self) -> &[Profile] {
        &self.profiles
    }

    /// The profile of that name.
    pub fn profile(&self, name: &str) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.name == name)
    }

    /// Collects the parameters of the profiles of those names, each under its profile's name:
    /// `bf2/tcp.sm2.rate`.
    pub fn evidence(&self, names: &[&str]) -> Evidence {
        let mut all = Evidence::new();
        for profile in names.iter().filter_map(|name| self.profile(name)) {
            all.insert_all(&profile.name, &profile.evidence());
        }
        all
    }

    /// Returns the library as if these facts had never been published: without every value that
    /// needs one of them. A value that a profile cannot do without, such as the longest source,
    /// stays.
    pub fn without(&self, facts: &[&str]) -> Self {
        let left_out: Vec<_> = (facts.iter())
            .filter_map(|id| Facts::published().get(id))
            .flat_map(|fact| fact.figures())
            .collect();
        self.leave_out(&left_out)
    }

    /// Returns the library as if this figure had never been published, and the others of its fact
    /// had.
    pub fn without_figure(&self, figure: &Figure<'_>) -> Self {
        self.leave_out(std::slice::from_ref(figure))
    }

    fn leave_out(&self, figures: &[Figure<'_>]) -> Self {
        let left_out = leave_out::LeftOut::new(figures);
        let profiles = self.profiles.iter();
        Self::new(profiles.map(|profile| left_out.drop_from(profile)).collect())
    }
}
