//! Setting up anew: what a stream of another buffer size would need.

use super::equip::{self, Home};
use crate::pilot::Pilot;
use crate::{Error, Executor, Leg, Policy};

impl Executor {
    /// Tears both contexts and all buffers down and sets them up again, as for a stream whose
    /// buffers have another size. Under [`Policy::Adaptive`] the device follows when it is next
    /// used, and what the controller has learned stays; buffers are of the device's memory only from
    /// when the device is in use. Times and counts go on.
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
        self.home = match &self.pilot {
            Some(pilot) if !pilot.uses_device() => Home::Cpu,
            _ => Home::Device,
        };
        self.sources = equip::memory(&self.setup, &mut self.lanes, self.home)?;
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

    /// Makes sources of the device's memory if it has come into use since buffers were set up.
    pub(crate) fn follow_pilot(&mut self) {
        let uses = self.pilot.as_ref().is_some_and(Pilot::uses_device);
        if self.home == Home::Device || !uses {
            return;
        }
        self.home = Home::Device;
        if let Some(device) = self.lane(Leg::Device).filter(|lane| lane.is_registered()) {
            let sources = equip::sources(&self.setup, device);
            self.memory_before += self.sources.spent();
            self.sources = sources;
        }
    }
}
