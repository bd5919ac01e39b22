/** The runner's numbers, each with its reason. */

export const RUNNER_DEFAULTS = {
  boxesMax: 1_000, // running at once, per prefix; the owner of an idle box stops or removes it
  boxesKeptMax: 20_000, // stopped, per prefix; each is a folder, and a few kilobytes of memory
  execsMax: 32, // running at once in one box, unless the box sets another limit
  processesMax: 8, // background processes at once in one box
  memoryMb: 1_024,
  pids: 256,
  pidsPerExec: 8, // a box that may run many execs gets more pids
  endedPidsMax: 4_096, // per box, not collected yet; without an init in its container, a box can run this many commands
  endedPidsEveryMs: 250, // PID 1 may need a second; reading 256 of them takes 3 ms
  endedPidsLooks: 256,
  spawnsMax: 8, // commands starting at once: more would only slow down all of them, and health checks
  keeperIdleMs: 60_000, // after a longer pause no one notices the 25 ms that a new one takes
  keeperNoteMs: 500, // from a keeper's claim to its first status line, on a loaded machine
  keepersIdleMax: 32, // per box; each is a shell of a few hundred KiB
  keepersIdleAll: 256, // in all boxes together: an ordinary user may have only a few thousand processes
  capturesMax: 2, // checkpoints being taken at once, of all boxes: they share the disk with commands
  checkpointMs: 5_000, // an automatic checkpoint; after that it is skipped, and the next one continues from there
  checkpointFirstMs: 300_000, // the first of a box reads every file, and a caller may wait for one; a busy machine takes minutes for a gigabyte
  restoreMs: 600_000,
  checkpointBytesMax: 2 * 1024 * 1024 * 1024, // of all checkpoints of a box
  checkpointFilesMax: 50_000,
  checkpointFileBytesMax: 10 * 1024 * 1024, // a larger file is left out
  checkpointsMax: 1_000,
  checkpointIdleMs: 60_000, // with "auto", a command after such a pause counts as a new piece of work
  etcCopyAfterMs: 2_000, // 750 small files, copied once for a machine; a runner that lives for a moment needs no copy
  waitMs: 60_000,
  waitMsMax: 3_600_000,
  filePutBytesMax: 64 * 1024 * 1024,
  stdinBytesMax: 64 * 1024 * 1024, // per call
  bodySilenceMs: 60_000, // of an upload; a client that waits for a full pipe does not count as silent
  pageMax: 1_000,
  retentionMs: 24 * 3_600_000, // output of finished execs
  retentionBytesPerBox: 1024 * 1024 * 1024,
  recordsPerBox: 20_000, // records without output are small, but not free
  recordMs: 7 * 24 * 3_600_000, // no client asks for an older id
  fenceMs: 7 * 24 * 3_600_000, // a fence without a box; no request of a replaced owner is under way that long
  sweepMs: 60_000,
  treeEndMs: 2_000, // how long SIGKILL may take to empty a process tree; after that the survivors are reported
  pumpEndMs: 5_000, // it exits within one turn of its event loop, unless the disk blocks it
  pumpRestartMs: 100,
  shutdownGraceMs: 2_000,
  pollMs: 1_000, // safety net under inotify
} as const
