//! Setting up anew: what a stream of another buffer size would need.

use super::equip::{self, Home};
use crate::{Error, Executor, Leg, Policy};

impl Executor {
    /// Tears both contexts and all buffers down and sets them up again, as for a stream whose
    /// buffers have another size. Under [`Policy::Adaptive`] the device follows when it is next
    /// used, and what the controller has learned stays; buffers are of the device's memory only if
    /// the device is in use. Times and counts go on.
    ///
    /// # Errors
    /// [`Error::InFlight`] if not everything has been pulled; else as [`Executor::open`], but that a
    /// device that fails now is an event if there is a CPU to do its work.
    pub fn reconfigure(&mut self) -> Result<(), Error> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        if self.in_flight() > 0 {
            return Err(Error::InFlight(self.in_flight()));
        }
        self.memory_before = self.memory_spent();
        for lane in self.lanes.iter_mut().flatten() {
            self.quarantined += lane.renew() as u64;
        }
        self.forget_overtaken();
        let home = match &self.pilot {
            Some(pilot) if !pilot.uses_device() => Home::Cpu,
            _ => Home::Device,
        };
        self.sources = equip::memory(&self.setup, &mut self.lanes, home)?;
        let opened = equip::open(&self.setup, &mut self.lanes, &self.sources);
        if let Err(Error::Open(error)) = &opened
            && self.setup.policy != Policy::Adaptive
            && self.lane(Leg::Cpu).is_some()
            && self.lane(Leg::Device).is_some_and(|lane| !lane.is_open())
        {
            // As with any other failure of the device, the CPU does its work.
            self.cannot_open(&error.clone());
            return Ok(());
        }
        opened
    }
}
