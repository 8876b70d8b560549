//! How a minibatch is cut into chunks: each makes a gradient of its own, and these are added in order, so that the sum
//! does not depend on who made them.

use std::ops::Range;

/// Cuts `tiles` into spans, at most as many as there is room for.
///
/// Where there are many, the first are the largest and each is smaller than the one before by the same amount: threads
/// that take them in turn are done at almost the same time, even when one of them is slower.
pub fn spans(tiles: usize, room: &mut [Range<usize>]) -> &[Range<usize>] {
    let most = room.len();
    let edge = |i: usize| {
        if tiles <= most { i.min(tiles) } else { tiles * i * (2 * most + 1 - i) / (most * (most + 1)) }
    };
    let mut count = 0;
    for span in (0..most).map(|i| edge(i)..edge(i + 1)).filter(|span| !span.is_empty()) {
        room[count] = span;
        count += 1;
    }
    &room[..count]
}
