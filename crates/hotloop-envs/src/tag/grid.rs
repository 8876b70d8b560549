//! The grid of `tag`: walls, open directions, and a path between any two players.

use hotloop_core::rng::Stream;

/// The largest number of rows and columns.
pub const MAX_SIZE: usize = 16;

/// Directions, in the order of the actions after staying.
pub const DIRECTIONS: usize = 4;

/// Walls of a square grid; cells are numbered row by row.
pub struct Grid {
    /// Rows and columns.
    pub size: usize,
    /// 1 for walls; [`Grid::survey`] must follow a change.
    pub walls: Vec<u8>,
    /// Open directions of each cell, a bit each.
    ways: Vec<u8>,
    /// Row and column of every cell.
    places: Vec<[f32; 2]>,
}

impl Grid {
    /// A grid without walls.
    pub fn new(size: usize) -> Self {
        let cells = size * size;
        let places = (0..cells).map(|cell| [(cell / size) as f32, (cell % size) as f32]).collect();
        let mut grid = Self { size, walls: vec![0; cells], ways: vec![0; cells], places };
        grid.survey();
        grid
    }

    /// Recomputes the free directions of all cells.
    pub fn survey(&mut self) {
        let size = self.size;
        for row in 0..size {
            for column in 0..size {
                let cell = row * size + column;
                let open = |inside: bool, next: usize| u8::from(inside && self.walls[next] == 0);
                self.ways[cell] = open(row > 0, cell.wrapping_sub(size))
                    | open(row + 1 < size, cell + size) << 1
                    | open(column > 0, cell.wrapping_sub(1)) << 2
                    | open(column + 1 < size, cell + 1) << 3;
            }
        }
    }

    /// The row and column of a cell.
    pub fn place(&self, cell: usize) -> [f32; 2] {
        self.places[cell]
    }

    /// Whether the cells north, south, west and east of a cell are free.
    pub fn is_open(&self, cell: usize, direction: usize) -> bool {
        self.ways[cell] >> direction & 1 == 1
    }

    /// The neighbour of a cell in a direction; the cell itself if a wall is there.
    pub fn go(&self, cell: usize, direction: usize) -> usize {
        match direction {
            _ if !self.is_open(cell, direction) => cell,
            0 => cell - self.size,
            1 => cell + self.size,
            2 => cell - 1,
            _ => cell + 1,
        }
    }

    /// Draws new walls outside the players' cells, then opens those that would separate players from each other.
    pub fn build(&mut self, density: f32, players: &[usize], draws: Stream, first_draw: u32) {
        for (cell, wall) in self.walls.iter_mut().enumerate() {
            *wall = u8::from(density > 0.0 && draws.uniform(first_draw + cell as u32) < density);
        }
        for player in players {
            self.walls[*player] = 0;
        }
        let mut reached = self.reach(players[0]);
        for player in &players[1..] {
            if reached[player / self.size] >> (player % self.size) & 1 == 0 {
                self.carve(*player, players[0]);
                reached = self.reach(players[0]);
            }
        }
        self.survey();
    }

    /// All cells that can be walked to, one word per row, one bit per column.
    fn reach(&self, from: usize) -> [u16; MAX_SIZE] {
        let mut free = [0_u16; MAX_SIZE];
        for (row, walls) in free.iter_mut().zip(self.walls.chunks_exact(self.size)) {
            *row = walls.iter().enumerate().map(|(column, wall)| u16::from(*wall == 0) << column).sum();
        }
        let mut reached = [0; MAX_SIZE];
        reached[from / self.size] = 1 << (from % self.size);
        loop {
            let before = reached;
            for row in 0..self.size {
                let above = if row > 0 { reached[row - 1] } else { 0 };
                let below = if row + 1 < self.size { reached[row + 1] } else { 0 };
                let here = reached[row];
                reached[row] = (here | here << 1 | here >> 1 | above | below) & free[row];
            }
            if reached == before {
                return reached;
            }
        }
    }

    /// Opens the way along the first cell's column and then the second's row.
    fn carve(&mut self, from: usize, to: usize) {
        let (row, column) = (from / self.size, from % self.size);
        let (to_row, to_column) = (to / self.size, to % self.size);
        for between in row.min(to_row)..=row.max(to_row) {
            self.walls[between * self.size + column] = 0;
        }
        for between in column.min(to_column)..=column.max(to_column) {
            self.walls[to_row * self.size + between] = 0;
        }
    }
}
