//! The side of a dma test that an agent plays, with hosts that send requests out of order or beyond
//! the limits.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use overside_base::MemoryBudget;
use overside_link::Secret;
use overside_link::agent::{CancellationToken, Host, Probe, ProbePeer};
use overside_link::codec::Message;
use overside_link::ucx::{self, Transport};
use overside_link::verbs::Side;
use overside_probe::closed_loop::{Timeouts, Until};
use overside_probe::dma::remote::{DmaProbe, DmaReply, DmaRequest, Opening};
use overside_probe::dma::{Answer, Command, Link, Operation, Peer, Plan, Reach, TestSide, dial};
use overside_probe::{Failure, FailureKind};

fn part() -> (Box<dyn ProbePeer>, CancellationToken) {
    let gone = CancellationToken::default();
    let host = Host {
        here: (Ipv4Addr::LOCALHOST, 7433).into(),
        there: (Ipv4Addr::LOCALHOST, 40_000).into(),
        cancelled: gone.clone(),
        memory: MemoryBudget::new(4 << 30),
    };
    (DmaProbe.begin(host).expect("a part"), gone)
}

fn plan() -> Plan {
    Plan {
        operation: Operation::Write,
        event: false,
        deferred: false,
        each: true,
        size: 64,
        depth: 4,
        batch: 2,
        threads: 1,
        distinct: true,
        inline: false,
        events: false,
        seed: 3,
    }
}

fn opening() -> Opening {
    Opening {
        link: Link::Shm,
        initiates: true,
        plan: plan(),
        engine: None,
        cores: None,
        transport: None,
        timeout_ms: 60_000,
    }
}

fn ask(part: &mut dyn ProbePeer, request: &DmaRequest) -> DmaReply {
    DmaReply::decode(&part.answer(&request.encode())).expect("a reply")
}

fn refused(reply: DmaReply) -> Failure {
    match reply {
        DmaReply::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

#[test]
fn questions_that_cannot_be_are_refused_with_the_bound() {
    let with = |change: fn(&mut Opening)| {
        let mut opening = opening();
        change(&mut opening);
        opening
    };
    for (opening, words) in [
        (with(|one| one.plan.size = 0), "size is 0"),
        (with(|one| one.plan.size = usize::MAX), "size is"),
        (with(|one| one.plan.depth = 1025), "depth is 1025"),
        (with(|one| one.plan.batch = 5), "batch is 5"),
        (with(|one| one.plan.threads = 65), "threads is 65"),
        (with(|one| (one.plan.size, one.plan.threads) = (1 << 30, 64)), "more than an agent holds"),
        (with(|one| one.timeout_ms = 0), "1 to 3600000"),
        (with(|one| one.timeout_ms = u64::MAX), "1 to 3600000"),
        (with(|one| one.cores = Some(vec![])), "0 cores"),
        (
            with(|one| (one.link, one.engine) = (Link::Ucx, Some(Default::default()))),
            "no thread that copies",
        ),
        (with(|one| one.transport = Some(Transport::Tcp)), "no transports to choose from"),
    ] {
        let (mut part, _) = part();
        let failure = refused(ask(&mut *part, &DmaRequest::Open(opening)));
        assert_eq!(failure.kind, FailureKind::Unsupported);
        assert!(failure.message.contains(words), "{failure}");
        // The test is over: a valid request comes too late.
        let late = refused(ask(&mut *part, &DmaRequest::Open(self::opening())));
        assert!(late.message.contains("out of turn"), "{late}");
    }
}

#[test]
fn questions_out_of_turn_and_none_at_all_are_refused() {
    for request in [
        &b"{"[..],
        b"null",
        b"{\"open\":{}}",
        b"{\"execute\":\"dance\"}",
        b"{\"execute\":\"prepare\"}",
        b"{\"execute\":{\"start\":[[256]]}}",
        &[0xff; 1000],
    ] {
        let (mut part, _) = part();
        let reply = DmaReply::decode(&part.answer(request)).expect("a reply");
        assert_eq!(refused(reply).kind, FailureKind::Job);
    }
}

/// A link with the part, and a host's end that has prepared.
fn met(part: &mut dyn ProbePeer, opening: Opening) -> (Peer, Vec<Vec<u8>>) {
    let plan = opening.plan;
    let DmaReply::Listening(reach) = ask(part, &DmaRequest::Open(opening)) else {
        panic!("it does not listen");
    };
    let there = (Ipv4Addr::LOCALHOST, 7433).into();
    let deadline = Instant::now() + Duration::from_secs(60);
    let config = plan.link_config(Side::Host);
    let end = dial(Link::Shm, &reach, there, None, None, &config, deadline).expect("a link");
    let patience = Timeouts::until(Instant::now() + Duration::from_secs(60));
    let mut peer = Peer::over(end, "shm", (plan, Side::Host), patience);
    let Ok(Answer::Prepared(tokens)) = peer.execute(Command::Prepare) else {
        panic!("it does not prepare");
    };
    (peer, tokens)
}

fn execute(part: &mut dyn ProbePeer, command: Command) -> DmaReply {
    ask(part, &DmaRequest::Execute(command))
}

#[test]
fn commands_in_any_order_and_tokens_of_nobody_break_nothing() {
    let never_given = vec![0xaa; 40];
    for commands in [
        vec![Command::Run(Until::Count(1))],
        vec![Command::Prepare],
        vec![Command::Start(vec![])],
        vec![Command::Start(vec![vec![]])],
        vec![Command::Start(vec![never_given])],
        vec![Command::Start(vec![vec![1; 5000]])],
        vec![Command::Compare(vec![u64::MAX; 100])],
        vec![Command::End, Command::Run(Until::Passed(Duration::MAX))],
    ] {
        let (mut part, _) = part();
        let (_peer, _) = met(&mut *part, opening());
        let last = commands.into_iter().map(|one| execute(&mut *part, one)).last();
        let failure = refused(last.expect("a reply"));
        assert_ne!(failure.kind, FailureKind::Internal, "{failure}");
    }
}

#[test]
fn who_does_not_know_the_secret_does_not_get_the_link() {
    if let Err(reason) = ucx::version() {
        eprintln!("skipped: {reason}");
        return;
    }
    let (mut part, _) = part();
    let opening = Opening { link: Link::Ucx, ..opening() };
    let DmaReply::Listening(Reach::Port { port, .. }) = ask(&mut *part, &DmaRequest::Open(opening))
    else {
        panic!("it does not listen");
    };
    let wrong = Reach::Port { port, secret: Secret::random().expect("random bytes") };
    let (there, soon) = ((Ipv4Addr::LOCALHOST, 1).into(), Instant::now() + Duration::from_secs(60));
    let config = plan().link_config(Side::Host);
    let Err(failure) = dial(Link::Ucx, &wrong, there, None, None, &config, soon) else {
        panic!("a link without the secret");
    };
    assert!(failure.message.contains("was told"), "{failure}");
    // Its door closes by itself, some seconds later.
    std::mem::forget(part);
}

#[test]
fn a_run_ends_when_the_host_has_gone() {
    let (mut part, gone) = part();
    let (mut peer, tokens) = met(&mut *part, opening());
    assert!(matches!(
        execute(&mut *part, Command::Start(tokens)),
        DmaReply::Answered(Answer::Done)
    ));
    peer.execute(Command::Fill(0)).expect("filled");
    execute(&mut *part, Command::Fill(0));
    let begin = Instant::now();
    let reply = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            gone.cancel();
        });
        execute(&mut *part, Command::Run(Until::Count(u64::MAX)))
    });
    assert_eq!(refused(reply).kind, FailureKind::Lost);
    assert!(begin.elapsed() < Duration::from_secs(60));
}
