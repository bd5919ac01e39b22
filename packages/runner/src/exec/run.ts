/** A job that a keeper has, or had: the keeper, the process tree it started, and what this process listens to meanwhile. */
import { RUNNER_DEFAULTS } from '../lib/defaults.ts'
import type { KeeperLink } from './keeper-link.ts'
import { prove } from './process-table.ts'
import type { ExecSetup } from './exec-setup.ts'
import type { StatusFile } from './status-file.ts'
import type { StdinPipe } from './stdin.ts'
import { ProcessTree } from './process-tree.ts'

export class Run {
  readonly keeper: KeeperLink
  readonly tree: ProcessTree
  readonly #setup: ExecSetup
  readonly #status: StatusFile
  readonly #stdin: StdinPipe
  /** By the machine's monotonic clock; undefined if the keeper of an earlier runner never wrote it. */
  readonly #spawnedAtMs: number | undefined
  #deadline: NodeJS.Timeout | undefined

  constructor(
    setup: ExecSetup,
    files: { readonly status: StatusFile; readonly stdin: StdinPipe },
    keeper: KeeperLink,
    spawnedAtMs: number | undefined,
  ) {
    const { level, mark, keepers } = setup
    this.keeper = keeper
    this.tree = new ProcessTree({
      level,
      holdsTree: keepers.holdsTrees,
      mark,
      keeperPid: keeper.pid,
      group: keeper.group,
    })
    this.#setup = setup
    this.#status = files.status
    this.#stdin = files.stdin
    this.#spawnedAtMs = spawnedAtMs
  }

  /** Reads the status file. True once the command, or its sandbox, has a process. */
  readStatus(): boolean {
    const isRead = this.#status.read()
    const { holder, sandboxPid, pid } = this.#status.status
    const leader = this.#setup.level === 'bwrap' ? sandboxPid : pid
    if (isRead) {
      if (leader !== undefined) this.tree.setLeader(leader)
      this.tree.holder = holder
      if (holder !== undefined) this.#stdin.holder ??= prove(holder)
    }
    return leader !== undefined
  }

  /** True once the command can be signalled. */
  isReady(): boolean {
    return this.readStatus() && this.tree.isReady()
  }

  /** Ends what is left of its tree. Returns the survivors. */
  async endTree(): Promise<readonly number[]> {
    const survivors = await this.tree.end(RUNNER_DEFAULTS.treeEndMs)
    this.#setup.keepers.ended(this.tree.ended)
    return survivors
  }

  elapsedMs(): number {
    return this.#spawnedAtMs === undefined ? 0 : this.#setup.clock.monotonicMs() - this.#spawnedAtMs
  }

  /** Follows the keeper's status file and the deadline, until `unwatch`. */
  watch(listener: { readonly onStatus: () => void; readonly onDeadline: () => void }): void {
    const elapsedMs = this.#setup.clock.monotonicMs() - (this.#spawnedAtMs ?? 0)
    const { timeoutMs } = this.#setup.reservation.request
    if (timeoutMs !== undefined) this.#deadline = setTimeout(listener.onDeadline, Math.max(0, timeoutMs - elapsedMs))
    this.#status.follow(listener.onStatus)
  }

  unwatch(): void {
    clearTimeout(this.#deadline)
    this.#status.unfollow()
  }
}
