//! A sorted set: members with scores, in order of score and then of bytes.
//!
//! Members are found through a B-tree. Their order is kept in a treap (Seidel and Aragon, 1996): a
//! search tree that is balanced by random priorities, each node with the size of its subtree. So
//! adding, removing, and finding the rank of a score or the member of a rank take O(log n), and a range
//! of k members O(log n + k).

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::request::SortedRangeBy;
use crate::{Element, ListBuilder, SortedRange};

const NONE: u32 = u32::MAX;
/// Least number of nodes that room is added for.
const NODES_MIN: usize = 4;

#[derive(Debug)]
struct Node {
    score: f64,
    member: Arc<[u8]>,
    left: u32,
    right: u32,
    size: u32,
    priority: u32,
}

impl Node {
    fn new(score: f64, member: Arc<[u8]>, priority: u32) -> Self {
        Self { score, member, left: NONE, right: NONE, size: 1, priority }
    }
}

/// See the module's comment. Scores are never NaN, and zero has no sign.
#[derive(Debug)]
pub(super) struct SortedSet {
    scores: BTreeMap<Arc<[u8]>, f64>,
    /// Nodes, one for each member, in no order.
    nodes: Vec<Node>,
    root: u32,
    random: u64,
}

impl SortedSet {
    /// An empty set. A client that does not know the seed cannot unbalance it.
    pub(super) fn new(seed: u64) -> Self {
        Self { scores: BTreeMap::new(), nodes: Vec::new(), root: NONE, random: seed | 1 }
    }

    pub(super) fn len(&self) -> usize {
        self.scores.len()
    }

    pub(super) fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).copied()
    }

    /// Adds a member or changes its score. Returns `true` if it is new.
    pub(super) fn insert(&mut self, member: &[u8], score: f64) -> bool {
        // -0 becomes 0.
        let score = score + 0.0;
        let (node, is_new) = match self.scores.get_mut(member) {
            Some(old) => {
                let old = std::mem::replace(old, score);
                let node = self.take_out(member, old);
                let Node { priority, .. } = self.nodes[node as usize];
                let member = Arc::clone(&self.nodes[node as usize].member);
                self.nodes[node as usize] = Node::new(score, member, priority);
                (node, false)
            }
            None => {
                let member: Arc<[u8]> = Arc::from(member);
                self.scores.insert(Arc::clone(&member), score);
                (self.add_node(member, score), true)
            }
        };
        let (left, right) =
            self.split(self.root, &|node| order(node, score, member) == Ordering::Less);
        let left = self.merge(left, node);
        self.root = self.merge(left, right);
        is_new
    }

    /// Removes a member. Returns `true` if it existed.
    pub(super) fn remove(&mut self, member: &[u8]) -> bool {
        let Some((member, score)) = self.scores.remove_entry(member) else {
            return false;
        };
        let node = self.take_out(&member, score);
        self.drop_node(node);
        true
    }

    /// Memory of the nodes, those included that there is room for.
    pub(super) fn node_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
    }

    /// Bytes by which `node_bytes` may grow with `added` new members.
    pub(super) fn growth_bytes(&self, added: usize) -> usize {
        let len = self.nodes.len() + added;
        let capacity = len + len / 4 + NODES_MIN;
        capacity.saturating_sub(self.nodes.capacity()) * size_of::<Node>()
    }

    /// Takes a member out of the order; its node is returned.
    fn take_out(&mut self, member: &[u8], score: f64) -> u32 {
        let is_before = |node: &Node| order(node, score, member) == Ordering::Less;
        let is_not_behind = |node: &Node| order(node, score, member) != Ordering::Greater;
        let (left, rest) = self.split(self.root, &is_before);
        let (node, right) = self.split(rest, &is_not_behind);
        self.root = self.merge(left, right);
        node
    }

    fn add_node(&mut self, member: Arc<[u8]>, score: f64) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        if self.nodes.len() == self.nodes.capacity() {
            self.nodes.reserve_exact((self.nodes.len() / 4).max(NODES_MIN));
        }
        let priority = (self.random >> 32) as u32;
        self.nodes.push(Node::new(score, member, priority));
        self.nodes.len() as u32 - 1
    }

    /// Drops a node that was taken out. The last one takes its place, so that none is free in between;
    /// memory of which half is free is given back.
    fn drop_node(&mut self, node: u32) {
        let last = self.nodes.len() as u32 - 1;
        if node != last {
            self.rename(last, node);
        }
        self.nodes.swap_remove(node as usize);
        let len = self.nodes.len();
        if self.nodes.capacity() > 2 * len + NODES_MIN {
            self.nodes.shrink_to(len + len / 4);
        }
    }

    /// Replaces the node `from` by `to` in the tree.
    fn rename(&mut self, from: u32, to: u32) {
        let Node { score, .. } = self.nodes[from as usize];
        let member = Arc::clone(&self.nodes[from as usize].member);
        if self.root == from {
            self.root = to;
            return;
        }
        let mut at = self.root;
        while let Some(node) = self.nodes.get_mut(at as usize) {
            let child = match order(node, score, &member) {
                Ordering::Less => &mut node.right,
                _ => &mut node.left,
            };
            at = *child;
            if at == from {
                *child = to;
                return;
            }
        }
    }

    fn size(&self, node: u32) -> u32 {
        self.nodes.get(node as usize).map_or(0, |node| node.size)
    }

    fn update(&mut self, node: u32) {
        let Node { left, right, .. } = self.nodes[node as usize];
        self.nodes[node as usize].size = self.size(left) + self.size(right) + 1;
    }

    /// Divides a tree into nodes that are in front and the rest.
    fn split(&mut self, root: u32, is_front: &impl Fn(&Node) -> bool) -> (u32, u32) {
        if root == NONE {
            return (NONE, NONE);
        }
        let at = root as usize;
        if is_front(&self.nodes[at]) {
            let (left, right) = self.split(self.nodes[at].right, is_front);
            self.nodes[at].right = left;
            self.update(root);
            (root, right)
        } else {
            let (left, right) = self.split(self.nodes[at].left, is_front);
            self.nodes[at].left = right;
            self.update(root);
            (left, root)
        }
    }

    fn merge(&mut self, left: u32, right: u32) -> u32 {
        if left == NONE {
            return right;
        }
        if right == NONE {
            return left;
        }
        let (l, r) = (left as usize, right as usize);
        if self.nodes[l].priority >= self.nodes[r].priority {
            self.nodes[l].right = self.merge(self.nodes[l].right, right);
            self.update(left);
            left
        } else {
            self.nodes[r].left = self.merge(left, self.nodes[r].left);
            self.update(right);
            right
        }
    }

    /// Number of members in front.
    fn count(&self, is_front: impl Fn(&Node) -> bool) -> usize {
        let (mut count, mut at) = (0, self.root);
        while let Some(node) = self.nodes.get(at as usize) {
            if is_front(node) {
                count += self.size(node.left) as usize + 1;
                at = node.right;
            } else {
                at = node.left;
            }
        }
        count
    }

    /// Passes on the members of these ranks in order.
    pub(super) fn visit<'s>(
        &'s self,
        ranks: Range<usize>,
        is_reverse: bool,
        visitor: &mut impl FnMut(f64, &'s [u8]),
    ) {
        self.visit_from(self.root, 0, &ranks, is_reverse, visitor);
    }

    fn visit_from<'s>(
        &'s self,
        root: u32,
        first_rank: usize,
        ranks: &Range<usize>,
        is_reverse: bool,
        visitor: &mut impl FnMut(f64, &'s [u8]),
    ) {
        let Some(node) = self.nodes.get(root as usize) else {
            return;
        };
        let end = first_rank + node.size as usize;
        if first_rank >= ranks.end || end <= ranks.start {
            return;
        }
        let rank = first_rank + self.size(node.left) as usize;
        let (first, last) = match is_reverse {
            false => ((node.left, first_rank), (node.right, rank + 1)),
            true => ((node.right, rank + 1), (node.left, first_rank)),
        };
        self.visit_from(first.0, first.1, ranks, is_reverse, visitor);
        if ranks.contains(&rank) {
            visitor(node.score, &node.member);
        }
        self.visit_from(last.0, last.1, ranks, is_reverse, visitor);
    }

    /// Rank of a member, counted from the least.
    pub(super) fn rank(&self, member: &[u8]) -> Option<usize> {
        let score = self.score(member)?;
        Some(self.count(|node| order(node, score, member) == Ordering::Less))
    }

    /// Adds the members of a range to a list.
    pub(super) fn range(&self, range: &SortedRange<'_>, list: &mut ListBuilder) {
        self.visit(self.ranks(range), range.reverse, &mut |score, member| {
            list.push(Element::Bytes(member));
            if range.with_scores {
                list.push(Element::Score(score));
            }
        });
    }

    /// Returns the ranks that a range selects, counted from the least.
    pub(super) fn ranks(&self, range: &SortedRange<'_>) -> Range<usize> {
        let Range { start, end } = self.ranks_by(range);
        let offset = usize::try_from(range.offset).unwrap_or(usize::MAX).min(end - start);
        let left = end - start - offset;
        let count = usize::try_from(range.count).unwrap_or(usize::MAX).min(left);
        match range.reverse {
            false => start + offset..start + offset + count,
            true => end - offset - count..end - offset,
        }
    }

    /// The same, before offset and count apply.
    fn ranks_by(&self, range: &SortedRange<'_>) -> Range<usize> {
        let len = self.len();
        let (start, end) = match &range.by {
            SortedRangeBy::Rank { start, end } => {
                let absolute = |at: i64| i128::from(at) + if at < 0 { len as i128 } else { 0 };
                let start = absolute(*start).clamp(0, len as i128) as usize;
                let end = (absolute(*end) + 1).clamp(0, len as i128) as usize;
                match range.reverse {
                    false => (start, end),
                    true => (len - end, len - start),
                }
            }
            SortedRangeBy::Score { min, max } => (
                self.count(|n| n.score < min.score || (min.is_exclusive && n.score == min.score)),
                self.count(|n| n.score < max.score || (!max.is_exclusive && n.score == max.score)),
            ),
            SortedRangeBy::Member { min, max } => (
                min.map_or(0, |(min, is_included)| {
                    self.count(|n| *n.member < *min || (!is_included && *n.member == *min))
                }),
                max.map_or(len, |(max, is_included)| {
                    self.count(|n| *n.member < *max || (is_included && *n.member == *max))
                }),
            ),
        };
        start..end.max(start)
    }
}

fn order(node: &Node, score: f64, member: &[u8]) -> Ordering {
    let by_score = node.score.partial_cmp(&score);
    let by_score = by_score.expect("scores are not NaN");
    by_score.then_with(|| (*node.member).cmp(member))
}

#[cfg(test)]
mod tests {
    use overside_base::Random;

    use super::SortedSet;

    #[test]
    fn memory_follows_the_members_and_their_order_stays() {
        let mut set = SortedSet::new(1);
        let mut random = Random::new(2);
        let mut expected = Vec::new();
        for number in 0..2000_u32 {
            let (member, score) = (number.to_le_bytes(), random.below(100) as f64);
            let most = set.node_bytes() + set.growth_bytes(1);
            assert!(set.insert(&member, score));
            assert!(set.node_bytes() <= most);
            expected.push((score, member));
        }
        while !expected.is_empty() {
            let at = random.below(expected.len() as u64) as usize;
            let (_, member) = expected.swap_remove(at);
            assert!(set.remove(&member));
            assert_eq!(set.nodes.len(), expected.len());
            assert!(set.nodes.capacity() <= 2 * expected.len() + 4);
            if expected.len() % 50 == 0 {
                let mut sorted = expected.clone();
                sorted.sort_by(|a, b| a.partial_cmp(b).unwrap());
                let mut found = Vec::new();
                set.visit(0..set.len(), false, &mut |score, member| {
                    found.push((score, member.try_into().unwrap()));
                });
                assert_eq!(found, sorted);
            }
        }
    }
}
