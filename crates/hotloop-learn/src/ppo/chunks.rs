//! Chunks of a minibatch: each has a gradient of its own, and these are added in order, so that the sum does not depend
//! on the threads that computed them.

use std::ops::Range;

/// Cuts `tiles` into at most `room.len()` spans.
///
/// Many tiles are cut into spans of linearly decreasing length: threads that take them in turn finish at almost the same
/// time, even if one of them is slower.
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
