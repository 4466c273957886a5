//! What the transports over a network have in common: an endpoint with a service thread, and queue
//! pairs that the thread steps in for.

mod endpoint;
mod pair;
mod queue_pair;

pub(crate) use endpoint::{Import, Memory, NetworkEndpoint, Parts, delegate_endpoint, import_of};
pub(crate) use pair::Pair;

use crate::service::Wait;
use crate::verbs::{Cause, Completion, Inbox, Messages, Work};

/// One end of a queue pair, as its transport does it. Nothing blocks.
pub(crate) trait Engine: Send + 'static {
    /// Takes one piece of work, which has been checked; gives it back if there is no room.
    fn post(&mut self, work: Work) -> Result<(), Work>;

    /// Hands over what was taken, at one doorbell.
    fn ring(&mut self);

    /// Does what there is to do, until there is nothing more or it has been enough.
    fn progress(&mut self);

    /// Moves completions; how many.
    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> usize;

    /// Completions that can be moved.
    fn completed(&self) -> usize;

    /// Takes messages; how many.
    fn send(&mut self, messages: &Messages<'_>) -> usize;

    /// Moves messages that have arrived; how many.
    fn receive(&mut self, inbox: &mut Inbox, max: usize) -> usize;

    /// Memory waits for messages.
    fn waits_for_messages(&self) -> bool;

    /// Completions, messages, or the end, can be fetched, or there is room for more messages since
    /// [`Engine::noticed`].
    fn has_news(&mut self) -> bool;

    /// The owner knows that there is room.
    fn noticed(&mut self);

    /// Why there will be no more, with the tags of what is in flight.
    fn end(&self) -> Option<(Cause, Vec<u64>)>;

    /// Nothing is taken any more.
    fn is_closed(&self) -> bool;

    /// The tags of what is not over.
    fn tags(&self) -> Vec<u64>;

    /// Work that goes on by itself: all but memory that waits for messages.
    fn active(&self) -> usize;

    /// Work that is not over or not fetched.
    fn in_flight(&self) -> usize;

    /// Destinations that somebody may still write to though their work is over.
    fn quarantined(&self) -> usize;

    /// Tells the peer that nothing more will come.
    fn say_bye(&mut self);

    /// What was said has reached the peer's system, or never will.
    fn is_delivered(&self) -> bool;

    /// It has been delivered, and there is no more.
    fn shut(&mut self);

    /// The link is lost.
    fn lose(&mut self, cause: &Cause);

    /// What to wait for after [`Engine::progress`]; prepares the descriptor for it.
    fn wait(&mut self) -> Wait;

    /// Something is left to be done of which the service thread does not know. Once told it knows,
    /// until it has waited for it.
    fn needs_service(&mut self) -> bool;
}
