/**
 * The shared store: PostgreSQL, with eight connections for each daemon. One renews the lease, one hears hints, two append, four do
 * everything else.
 */
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { FileLock } from '@breakfall/supervisor/platform'
import { Fault, type FaultReport, isFault } from '@breakfall/faults'
import { newId } from '@breakfall/wire/node'
import { replaceFile } from '@breakfall/supervisor/platform'
import { within } from '@breakfall/faults/internal'
import { lockFolder } from '../sqlite-open.ts'
import { numberIn, type Row, textIn, textOrNullIn } from '../sqlite-statements.ts'
import type { DaemonRow, Hints, Lease, NewCommand, RunnerRegistry } from '../sharing.ts'
import type { FaultSelection, OccurrenceSelection } from '../fault-history.ts'
import type { NewSession, SessionRow } from '../../rows.ts'
import type { Append, EndedQuery, KeyRow, SessionSelection, Store, WorkQuery } from '../store.ts'
import { Acknowledged } from './acknowledged.ts'
import { FleetClock } from './clock.ts'
import { CommandRows } from './command-rows.ts'
import { Connection } from './connection.ts'
import { FaultRows } from './fault-rows.ts'
import { GroupAppend } from './group-append.ts'
import { PgHints } from './hints.ts'
import { JournalRows } from './journal-rows.ts'
import { DaemonLease } from './lease.ts'
import { BARRIER, DRAIN, END, LIST } from './lease-sql.ts'
import { fleetRow, migrate, refuseIfUnfit } from './migrate.ts'
import { type Claimed, Owners } from './owners.ts'
import { openingFault, pgFault } from './pg-fault.ts'
import { Pool } from './pool.ts'
import { Rewinds, rewound } from './rewind.ts'
import { RunnerRows } from './runner-rows.ts'
import { SessionRows } from './session-rows.ts'
import { Sweep } from './sweep.ts'
import { isUuid } from './values.ts'

export type PostgresOptions = {
  readonly url: string
  /** A direct connection for hints, if `url` leads to a pooler. */
  readonly hintsUrl?: string | undefined
  /** Of this daemon alone: its lock, and which boot it was last. */
  readonly folder: string
  readonly name: string
  readonly version: string
  readonly leaseMs?: number | undefined
  /** How long each commit took. */
  readonly onCommit?: ((ms: number) => void) | undefined
}

export const POSTGRES_DEFAULTS = {
  leaseMs: 15_000, // a pause of ten seconds, for garbage or for a snapshot, costs nothing; a dead daemon costs a quarter of a minute
  connections: 4, // for reads and short writes; 32 daemons then fit into 256
  appending: 2, // a third brought nothing: its batches are smaller
  answerMs: 15_000, // after this the connection of an append is given up, never the append
} as const

export async function openPostgresStore(options: PostgresOptions): Promise<Store> {
  mkdirSync(options.folder, { recursive: true, mode: 0o700 })
  const lock = lockFolder(options.folder)
  try {
    await prepare(options.url)
    return await PostgresStore.open(options, lock)
  } catch (error) {
    lock.release()
    throw openingFault(error, options.url)
  }
}

// ---- details, in the order they are used above ----

/** An empty database gets its tables; any other must fit. */
async function prepare(url: string): Promise<void> {
  const connection = new Connection({ url, waitMs: 10_000 })
  try {
    const fleet = (await fleetRow(connection)) ?? (await migrate(connection), await fleetRow(connection))
    if (fleet !== undefined) refuseIfUnfit(fleet)
  } finally {
    await connection.end()
  }
}

class PostgresStore implements Store {
  readonly problems = []
  readonly lease: Lease
  readonly hints: Hints
  readonly runners: RunnerRegistry
  readonly #lock: FileLock
  readonly #pool: Pool
  readonly #clock: FleetClock
  readonly #ownLease: DaemonLease
  readonly #ownHints: PgHints
  readonly #appending: readonly Connection[]
  readonly #group: GroupAppend
  readonly #rows: SessionRows
  readonly #owners: Owners
  readonly #journal: JournalRows
  readonly #commands: CommandRows
  readonly #sweep: Sweep
  readonly #faults: FaultRows
  readonly #acknowledged: Acknowledged
  readonly #rewinds: Rewinds
  /** Sessions that lost events: they have new journals now. */
  readonly #rewound = new Set<string>()

  static async open(options: PostgresOptions, lock: FileLock): Promise<PostgresStore> {
    const { url, name, version, folder } = options
    const pool = new Pool(url, POSTGRES_DEFAULTS.connections)
    const clock = new FleetClock()
    let hints: PgHints | undefined
    let era: number | undefined
    let onEra = (heard: number): void => void (era = heard)
    try {
      await pool.open()
      const boots = new BootFile(folder)
      const lease = await DaemonLease.start(
        {
          url,
          name,
          version,
          pool,
          clock,
          leaseMs: options.leaseMs ?? POSTGRES_DEFAULTS.leaseMs,
          onFreed: () => hints?.send({ kind: 'work' }),
          onEra: (era) => onEra(era),
          onBoot: (bootId) => boots.write(bootId),
        },
        boots.previous,
      )
      hints = new PgHints(options.hintsUrl ?? url, lease.bootId)
      const store = new PostgresStore(options, { lock, pool, clock, lease, hints })
      onEra = (heard) => store.#rewinds.heard(heard)
      if (era !== undefined) onEra(era)
      await Promise.all(store.#appending.map((connection) => connection.query('SELECT 1'))) // opened now: later the server may have none to spare
      await store.#rewinds.compare()
      return store
    } catch (error) {
      await pool.end()
      throw error
    }
  }

  constructor(
    { url, folder, leaseMs = POSTGRES_DEFAULTS.leaseMs, onCommit }: PostgresOptions,
    parts: { lock: FileLock; pool: Pool; clock: FleetClock; lease: DaemonLease; hints: PgHints },
  ) {
    const { lock, pool, clock, lease, hints } = parts
    const bootId = (): string => lease.bootId
    this.#lock = lock
    this.#pool = pool
    this.#clock = clock
    this.#ownLease = lease
    this.#ownHints = hints
    this.lease = lease
    this.hints = hints
    this.#appending = Array.from(
      { length: POSTGRES_DEFAULTS.appending },
      () => new Connection({ url, waitMs: POSTGRES_DEFAULTS.answerMs }),
    )
    this.#group = new GroupAppend({
      connections: this.#appending,
      barrier: (connection) => connection.query(BARRIER, [bootId()]),
      restore: (connection, id, end) => this.#rewinds.restore(connection, id, end),
      gone: (id, lastSeq) => {
        this.#rewound.add(id)
        return rewound(id, lastSeq)
      },
      onCommit: (appends, ms) => {
        this.#acknowledged.note(appends)
        hints.moved(appends.map(({ append }) => append.sessionId))
        onCommit?.(ms)
      },
    })
    this.#rows = new SessionRows(pool)
    this.#acknowledged = new Acknowledged(join(folder, 'anchors'))
    this.#rewinds = new Rewinds({
      pool,
      leaseMs,
      acknowledged: this.#acknowledged,
      append: (append) => this.#group.append(append),
      setAside: (id, report) => this.#rows.quarantine(id, report, newId()),
    })
    this.#owners = new Owners(pool, bootId, () => this.#rewinds.claimEra)
    this.#journal = new JournalRows(pool)
    this.#faults = new FaultRows(pool)
    this.#commands = new CommandRows(pool, bootId)
    this.runners = new RunnerRows(pool, this.#owners)
    this.#sweep = new Sweep(pool)
  }

  now = (): number => this.#clock.now()

  createSession = (session: NewSession, key?: KeyRow) => faulty(this.#rows.create(session, key))
  getSession = (id: string) => faulty(this.#rows.get(id))
  listSessions = (selection: SessionSelection) => faulty(this.#rows.list(selection))
  sessionsOfBox = (boxId: string) => faulty(this.#rows.ofBox(boxId))
  endedSessions = (query: EndedQuery) => faulty(this.#rows.ended(query))
  usage = (unusedBefore: string) => faulty(this.#rows.usage(unusedBefore))
  quarantine = (id: string, report: FaultReport) =>
    faulty(this.#rows.quarantine(id, report, this.#rewound.has(id) ? newId() : null))
  heads = (ids: readonly string[]) => faulty(this.#rows.heads(ids))
  read = (sessionId: string, after: number, limit: number, charsMax?: number) =>
    faulty(this.#journal.read(sessionId, after, limit, charsMax))
  getTurn = (turnId: string) => faulty(this.#journal.turn(turnId))
  listTurns = (sessionId: string, { before, limit }: { before?: string | undefined; limit: number }) =>
    faulty(this.#journal.turns(sessionId, before, limit))
  getKey = (scope: string, key: string) => faulty(this.#journal.key(scope, key))
  faultGroups = (selection: FaultSelection) => faulty(this.#faults.groups(selection))
  faultOccurrences = (selection: OccurrenceSelection) => faulty(this.#faults.occurrences(selection))
  waits = () => faulty(this.#owners.waits())
  wake = (waitFor: string, limit?: number) => faulty(this.#owners.wake(waitFor, limit))
  heldSessions = () => faulty(this.#owners.held())
  submit = (command: NewCommand) => faulty(this.#commands.submit(command))
  withdraw = (commandId: string) => faulty(this.#commands.withdraw(commandId))
  getCommand = (commandId: string) => faulty(this.#commands.get(commandId))
  openCommands = (sessionIds?: readonly string[]) => faulty(this.#commands.open(sessionIds))
  connections = () => this.#pool.usage
  daemons = async () => (await faulty(this.#pool.query(LIST))).map(daemonOf)
  drainDaemon = async (bootId: string) => isUuid(bootId) && (await faulty(this.#pool.query(DRAIN, [bootId]))).length > 0

  async deleteSession(id: string, options: { readonly ifIdle?: boolean | undefined } = {}): Promise<boolean> {
    await this.#group.settled(id)
    this.#group.forget(id)
    this.#acknowledged.forget(id)
    return faulty(this.#rows.remove(id, options.ifIdle ?? false))
  }

  async claim(id: string): Promise<SessionRow | 'owned' | undefined> {
    await this.#group.settled(id)
    const claimed = await faulty(this.#owners.claim(id))
    return typeof claimed === 'object' ? this.#noted(claimed) : claimed
  }

  async claimWork(query: WorkQuery): Promise<readonly SessionRow[]> {
    return (await faulty(this.#owners.claimWork(query))).map((claimed) => this.#noted(claimed))
  }

  async raiseEpoch({ id, epoch }: { readonly id: string; readonly epoch: number }, above: number) {
    const claimed = await faulty(this.#owners.raise(id, epoch, above))
    return claimed === undefined ? undefined : this.#noted(claimed)
  }

  async append(append: Append): Promise<void> {
    const wrong = append.events.find((event, index) => event.seq !== append.after + 1 + index)
    if (wrong !== undefined) {
      throw new Fault('other', { boundary: 'journal', errorRaw: `an event carries seq ${wrong.seq} out of order` })
    }
    await this.#group.append(append)
  }

  async close(): Promise<void> {
    this.#sweep.close()
    this.#group.close()
    await this.#ownLease.close()
    const told = this.#pool.query(END, [this.lease.bootId]).catch(() => undefined) // away: the lease runs out
    await within(told, LEAVE_MS)
    await Promise.all([this.#ownHints.close(), ...this.#appending.map((each) => each.end()), this.#pool.end()])
    this.#acknowledged.close()
    this.#lock.release()
  }

  #noted({ row, head }: Claimed): SessionRow {
    this.#acknowledged.saw(row.id, row.lastSeq, head)
    this.#group.note(row.id, { epoch: row.epoch, lastSeq: row.lastSeq, hash: head })
    return row
  }
}

const LEAVE_MS = 2_000 // a service manager kills after ten seconds, or after thirty

async function faulty<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer
  } catch (error) {
    throw isFault(error) ? error : pgFault(error)
  }
}

/** The last boot of a daemon in this folder: whoever holds the folder's lock knows that it is dead. */
class BootFile {
  readonly #file: string

  constructor(folder: string) {
    this.#file = join(folder, 'boot')
  }

  get previous(): string | undefined {
    try {
      const bootId = readFileSync(this.#file, 'utf8').trim()
      return isUuid(bootId) ? bootId : undefined // cut off in the middle of a write
    } catch {
      return undefined // the first start here
    }
  }

  /** A note that cannot be written costs the next start the wait for this lease, and nothing else. */
  write(bootId: string): void {
    try {
      replaceFile(this.#file, `${bootId}\n`)
    } catch {
      // This machine's disk is full or read-only; the sessions are not on it.
    }
  }
}

const DAEMON_STATES: readonly DaemonRow['state'][] = ['live', 'draining', 'dead']

const daemonOf = (row: Row): DaemonRow => ({
  bootId: textIn(row, 'boot_id'),
  name: textIn(row, 'name'),
  url: textOrNullIn(row, 'url'),
  version: textIn(row, 'version'),
  configHash: textIn(row, 'config_hash'),
  state: DAEMON_STATES.find((state) => state === row['state']) ?? 'dead',
  leaseUntil: textIn(row, 'lease_until'),
  held: numberIn(row, 'held'),
  places: numberIn(row, 'places'),
  startedAt: textIn(row, 'started_at'),
})
