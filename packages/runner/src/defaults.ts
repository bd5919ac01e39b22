/** The runner's numbers, each with its reason. */

export const RUNNER_DEFAULTS = {
  boxesMax: 1_000, // of one prefix; an idle box costs a folder and a record
  execsMax: 32, // running at once in one box, unless the box says otherwise
  memoryMb: 1_024,
  pids: 256,
  pidsPerExec: 8, // bwrap needs two of its own; a box that may run many execs gets pids for them
  spawnsMax: 8, // commands being started at once: more would only make all of them, and health, slower
  keeperIdleMs: 60_000, // an agent that thinks longer than that does not notice the 25 ms of a new one
  keeperNoteMs: 500, // between a keeper's claim and the note of who it is; on a loaded machine that may take a while
  keepersIdleMax: 32, // waiting in one box; each is a shell of a few hundred KiB
  keepersIdleAll: 256, // waiting in all boxes together: a plain user may have few thousand processes
  waitMs: 60_000,
  waitMsMax: 3_600_000,
  filePutBytesMax: 64 * 1024 * 1024,
  stdinBytesMax: 64 * 1024 * 1024, // of one call
  bodySilenceMs: 60_000, // of a file or of input; whoever is held back by a full pipe is not silent
  pageMax: 1_000,
  retentionMs: 24 * 3_600_000, // output of finished execs
  retentionBytesPerBox: 1024 * 1024 * 1024,
  recordsPerBox: 20_000, // records without output are small, but not free
  recordMs: 7 * 24 * 3_600_000, // an id that is older than that will not be asked for again
  sweepMs: 60_000,
  treeEndMs: 2_000, // how long SIGKILL may take to empty a process tree before what is left is named
  pumpEndMs: 5_000, // it ends within a turn of its loop, unless the disk holds it up
  pumpRestartMs: 100,
  shutdownGraceMs: 2_000,
  pollMs: 1_000, // safety net under inotify
} as const
