/**
 * The database of a universe: every statement is atomic and durable at once. Sessions, events, keys and faults are kept by the real
 * `SqliteJournal` over a file in memory; who owns what, when it is due, commands and leases follow the statements of the PostgreSQL
 * adapter.
 *
 * I1  Only a daemon that is not dead claims, and a claim raises the epoch.
 * I2  An append is fenced by epoch and seq. A repeated append changes nothing.
 * I3  A command is carried out or withdrawn, never both.
 */
import { DatabaseSync } from 'node:sqlite'
import { Fault, type FaultReport } from '../../packages/faults/src/index.ts'
import { SqliteJournal } from '../../packages/engine/src/store/sqlite-journal.ts'
import { openDatabase } from '../../packages/engine/src/store/sqlite-open.ts'
import type { CommandRow, DaemonFacts, DaemonRow, Inbox, NewCommand } from '../../packages/engine/src/store/sharing.ts'
import type { NewSession, SessionPage, SessionRow } from '../../packages/engine/src/rows.ts'
import type {
  Append,
  KeyRow,
  SessionHead,
  StoredEvent,
  Wait,
  WorkQuery,
} from '../../packages/engine/src/store/store.ts'

export type Observer = {
  /** A commit, after it is durable. `by`: the process that wrote it, and has not heard of it yet. */
  readonly appended?: (append: Append, by: string) => void
  /** That process has its answer. */
  readonly heard?: (append: Append, by: string) => void
  readonly claimed?: (row: SessionRow, bootId: string) => void
  readonly deleted?: (id: string) => void
}

type Head = {
  owner: string | null
  ownedSince: string
  wakeAt: number
  waitFor: string | null
  suspect: number
  asked: number
  seen: number
  isSetAside: boolean
  isDeleting: boolean
}

type DaemonState = {
  readonly name: string
  readonly version: string
  readonly startedAt: string
  until: number
  state: DaemonRow['state']
  facts: DaemonFacts
}

export class Database {
  readonly journal: SqliteJournal
  readonly #db: DatabaseSync
  readonly #now: () => number
  readonly #heads = new Map<string, Head>()
  readonly #daemons = new Map<string, DaemonState>()
  readonly #commands = new Map<string, CommandRow & { readonly isFreed?: boolean }>()
  /** What was read since the last write: most statements of a fleet are looks at what has not changed. */
  readonly #rows = new Map<string, SessionRow | undefined>()
  readonly #journalHeads = new Map<string, SessionHead | undefined>()
  readonly observers: Observer[] = []

  /** `file`: where a journal may be made, to read its schema. `now`: the database's own clock, in milliseconds since 1970. */
  constructor(file: string, now: () => number) {
    this.#db = new DatabaseSync(':memory:')
    this.#db.exec(schemaOf(file))
    this.journal = new SqliteJournal(this.#db, 'simulated')
    this.#now = now
  }

  close(): void {
    this.#db.close()
  }

  now(): number {
    return this.#now()
  }

  // ---- sessions ----

  createSession(session: NewSession, key?: KeyRow): SessionRow {
    return this.#write(() => {
      const row = this.journal.createSession(session, key)
      this.#heads.set(session.id, { ...NEW_HEAD })
      return row
    })
  }

  getSession(id: string): SessionRow | undefined {
    const row = this.#row(id)
    return row?.isDeleting === true ? undefined : row
  }

  heads(ids: readonly string[]): readonly SessionHead[] {
    return ids.flatMap((id) => {
      if (!this.#journalHeads.has(id)) this.#journalHeads.set(id, this.journal.heads([id])[0])
      const head = this.#journalHeads.get(id)
      return head === undefined ? [] : { ...head, owner: this.getSession(id)?.owner ?? null }
    })
  }

  decorated({ rows, ...rest }: SessionPage): SessionPage {
    const shown = rows.map((row) => this.#shown(row)).filter(({ isDeleting }) => !isDeleting)
    return { ...rest, rows: shown }
  }

  deleteSession(id: string, ifIdle: boolean): boolean {
    return this.#write(() => {
      const isDeleted = this.journal.deleteSession(id, { ifIdle })
      if (isDeleted) {
        this.#heads.delete(id)
        for (const [commandId, command] of this.#commands)
          if (command.sessionId === id) this.#commands.delete(commandId)
        for (const { deleted } of this.observers) deleted?.(id)
      }
      return isDeleted
    })
  }

  quarantine(id: string, report: FaultReport): void {
    this.#write(() => this.journal.quarantine(id, report))
    const head = this.#heads.get(id)
    if (head !== undefined) Object.assign(head, { isSetAside: true, owner: null })
  }

  // ---- owners ----

  /** I1 */
  claim(id: string, bootId: string): SessionRow | 'owned' | undefined {
    const head = this.#heads.get(id)
    if (head === undefined) return undefined
    if (this.#isDead(bootId)) throw declaredDead()
    if (head.owner !== null && head.owner !== bootId) return 'owned'
    return this.#take(id, bootId)
  }

  claimWork({ limit, suspects = false }: WorkQuery, bootId: string): readonly SessionRow[] {
    if (this.#daemons.get(bootId)?.state !== 'live') return []
    const now = this.now()
    const due = [...this.#heads].filter(
      ([id, head]) =>
        head.owner === null &&
        !head.isSetAside &&
        head.suspect >= SUSPECT_MIN === suspects &&
        head.wakeAt <= now &&
        (head.asked > head.seen || this.#kept(id)?.state !== 'idle'),
    )
    return due
      .toSorted(([a, x], [b, y]) => x.suspect - y.suspect || x.wakeAt - y.wakeAt || (a < b ? -1 : 1))
      .slice(0, limit)
      .flatMap(([id]) => this.#take(id, bootId) ?? [])
  }

  raiseEpoch(id: string, epoch: number, above: number, bootId: string): SessionRow | undefined {
    if (this.#heads.get(id)?.owner !== bootId) return undefined
    const raised = this.#write(() => this.journal.raiseEpoch({ id, epoch }, above))
    return raised === undefined ? undefined : this.#shown(raised)
  }

  held(bootId: string): readonly string[] {
    return [...this.#heads].filter(([, { owner }]) => owner === bootId).map(([id]) => id)
  }

  waits(): readonly Wait[] {
    const sessions = new Map<string, number>()
    for (const { waitFor, owner } of this.#heads.values())
      if (waitFor !== null && owner === null) sessions.set(waitFor, (sessions.get(waitFor) ?? 0) + 1)
    return [...sessions].map(([waitFor, count]) => ({ waitFor, sessions: count }))
  }

  wake(waitFor: string, limit = Number.POSITIVE_INFINITY): number {
    const waiting = [...this.#heads].filter(([, head]) => head.waitFor === waitFor && head.owner === null)
    const woken = waiting.toSorted(([a], [b]) => (a < b ? -1 : 1)).slice(0, limit)
    for (const [, head] of woken) Object.assign(head, { wakeAt: this.now(), waitFor: null })
    return woken.length
  }

  /** When a session without an owner is due. For rules, not for daemons. */
  dueAt(
    id: string,
  ): { readonly owner: string | null; readonly wakeAt: number; readonly waitFor: string | null } | undefined {
    return this.#heads.get(id)
  }

  // ---- the journal ----

  /** I2 */
  append(append: Append, by = ''): void {
    const { sessionId, epoch, after, events, release, suspect, outcomes = [], seen } = append
    const row = this.#kept(sessionId)
    const head = this.#heads.get(sessionId)
    if (row === undefined || head === undefined)
      throw new Fault('not_found', { facts: { name: 'such session' }, boundary: 'journal' })
    const [carriedOut] = outcomes
    const isAnswered =
      carriedOut !== undefined && this.#commands.get(carriedOut.commandId)?.outcome === carriedOut.outcome
    if (events.length > 0 ? this.#isThere(append) : isAnswered) return
    if (outcomes.some(({ commandId }) => this.#commands.get(commandId)?.outcome !== null) && row.epoch === epoch)
      throw new Fault('cancelled', { boundary: 'journal', errorRaw: 'a command was withdrawn' }) // I3
    const { release: _release, suspect: _suspect, ...kept } = append
    this.#write(() => this.journal.append({ ...kept, epoch, after }))
    if (suspect !== undefined) head.suspect = suspect
    if (seen !== undefined) head.seen = seen
    for (const { commandId, outcome, isRefused = false } of outcomes) {
      const command = this.#commands.get(commandId)
      if (command !== undefined) this.#commands.set(commandId, { ...command, outcome, isFreed: isRefused })
    }
    if (release !== undefined) {
      const wakeAt = release.wakeAt === null ? NEVER : Date.parse(release.wakeAt)
      const dueAt = head.asked > head.seen ? this.now() : wakeAt
      Object.assign(head, { owner: null, wakeAt: dueAt, waitFor: release.waitFor })
    }
    for (const { appended } of this.observers) appended?.(append, by)
  }

  read(sessionId: string, after: number, limit: number, charsMax?: number): readonly StoredEvent[] {
    return this.journal.read(sessionId, after, limit, charsMax)
  }

  // ---- commands ----

  submit(command: NewCommand): CommandRow {
    const { id, sessionId, key } = command
    const same = [...this.#commands.values()].find(
      (known) =>
        known.id === id ||
        (key !== undefined && known.sessionId === sessionId && known.key === key && known.isFreed !== true),
    )
    if (same !== undefined) return same
    const head = this.#heads.get(sessionId)
    if (head === undefined) throw new Fault('not_found', { facts: { name: 'such session' }, boundary: 'journal' })
    head.asked += 1
    if (head.owner === null) head.wakeAt = this.now()
    if (command.kind === 'delete') Object.assign(head, { isDeleting: true, isSetAside: false })
    const row: CommandRow = { ...command, nr: head.asked, outcome: null }
    this.#commands.set(id, row)
    return row
  }

  /** I3 */
  withdraw(id: string): boolean {
    if (this.#commands.get(id)?.outcome === null) this.#commands.delete(id)
    return !this.#commands.has(id)
  }

  getCommand(id: string): CommandRow | undefined {
    return this.#commands.get(id)
  }

  /** Of these sessions, or of every session that a daemon owns. */
  openCommands(which: readonly string[] | { readonly bootId: string }): readonly Inbox[] {
    const ids = 'bootId' in which ? this.held(which.bootId) : which
    return ids.flatMap((sessionId) => {
      const head = this.#heads.get(sessionId)
      if (head === undefined || head.asked <= head.seen) return []
      const commands = [...this.#commands.values()].filter(
        (command) => command.sessionId === sessionId && command.outcome === null,
      )
      const { asked, seen } = head
      return [{ sessionId, asked, seen, commands: commands.toSorted((a, b) => a.nr - b.nr) }]
    })
  }

  // ---- daemons ----

  register(bootId: string, name: string, facts: DaemonFacts, leaseMs: number): void {
    const startedAt = new Date(this.now()).toISOString()
    const known = this.#daemons.get(bootId)
    if (known !== undefined) known.until = this.now() + leaseMs
    else
      this.#daemons.set(bootId, {
        name,
        version: '0',
        startedAt,
        until: this.now() + leaseMs,
        state: 'live',
        facts,
      })
  }

  /** Undefined: it was declared dead. */
  renew(
    bootId: string,
    leaseMs: number,
  ): { readonly state: DaemonRow['state']; readonly live: number; readonly held: number } | undefined {
    const daemon = this.#daemons.get(bootId)
    if (daemon === undefined || daemon.state === 'dead') return undefined
    daemon.until = this.now() + leaseMs
    const live = [...this.#daemons.values()].filter(({ state }) => state === 'live').length
    const held = [...this.#heads.values()].filter(({ owner }) => owner !== null).length
    return { state: daemon.state, live, held }
  }

  reap(): number {
    let freed = 0
    for (const [bootId, { state, until }] of this.#daemons)
      if (state !== 'dead' && until < this.now()) freed += this.end(bootId)
    return freed
  }

  /** Declares a daemon dead: its sessions are due at once. */
  end(bootId: string): number {
    const daemon = this.#daemons.get(bootId)
    if (daemon === undefined) return 0
    daemon.state = 'dead'
    const owned = [...this.#heads.values()].filter(({ owner }) => owner === bootId)
    for (const head of owned) Object.assign(head, { owner: null, wakeAt: this.now() })
    return owned.length
  }

  announce(bootId: string, facts: DaemonFacts): void {
    const daemon = this.#daemons.get(bootId)
    if (daemon !== undefined) daemon.facts = { ...daemon.facts, ...facts }
  }

  drain(bootId: string): boolean {
    const daemon = this.#daemons.get(bootId)
    if (daemon === undefined || daemon.state === 'dead') return false
    daemon.state = 'draining'
    return true
  }

  daemons(): readonly DaemonRow[] {
    return [...this.#daemons].map(([bootId, { name, version, startedAt, until, state, facts }]) => ({
      bootId,
      name,
      version,
      startedAt,
      state,
      url: facts.url ?? null,
      configHash: facts.configHash ?? '',
      places: facts.places ?? 0,
      leaseUntil: new Date(until).toISOString(),
      held: this.held(bootId).length,
    }))
  }

  // ---- details, in the order they are used above ----

  #write<T>(work: () => T): T {
    this.#rows.clear()
    this.#journalHeads.clear()
    this.#db.exec('BEGIN')
    try {
      const value = work()
      this.journal.flush()
      this.#db.exec('COMMIT')
      this.journal.takeChanges()
      return value
    } catch (error) {
      this.#db.exec('ROLLBACK')
      this.journal.takeChanges()
      this.journal.forget()
      throw error
    }
  }

  #row(id: string): SessionRow | undefined {
    const row = this.#kept(id)
    return row === undefined ? undefined : this.#shown(row)
  }

  #kept(id: string): SessionRow | undefined {
    if (!this.#rows.has(id)) this.#rows.set(id, this.journal.getSession(id))
    return this.#rows.get(id)
  }

  #shown(row: SessionRow): SessionRow {
    const head = this.#heads.get(row.id)
    if (head === undefined) return row
    const { owner, ownedSince, asked, seen, suspect, isDeleting } = head
    const name = owner === null ? '' : (this.#daemons.get(owner)?.name ?? '')
    return {
      ...row,
      owner: owner === null ? null : { bootId: owner, name, since: ownedSince },
      asked,
      seen,
      suspect,
      isDeleting,
    }
  }

  #isDead(bootId: string): boolean {
    const state = this.#daemons.get(bootId)?.state
    return state === undefined || state === 'dead'
  }

  #take(id: string, bootId: string): SessionRow | undefined {
    const head = this.#heads.get(id)
    if (head === undefined) return undefined
    Object.assign(head, { owner: bootId, ownedSince: new Date(this.now()).toISOString(), waitFor: null })
    this.#write(() => this.journal.claim(id))
    const row = this.#row(id)
    if (row !== undefined) for (const { claimed } of this.observers) claimed?.(row, bootId)
    return row
  }

  /** Whether exactly these events are at that place, also if another daemon has claimed the session since. */
  #isThere({ sessionId, after, events }: Append): boolean {
    const there = this.journal.read(sessionId, after, events.length)
    return there.length === events.length && there.every(({ body }, index) => body === events[index]?.body)
  }
}

// ---- details ----

/** Of a real journal; read once. Nothing of a universe outlives it, so its own journal lies in memory. */
let schema: string | undefined

function schemaOf(file: string): string {
  if (schema !== undefined) return schema
  const db = openDatabase(file)
  const rows = db.prepare('SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL').all()
  schema = ['PRAGMA foreign_keys=ON', ...rows.map(({ sql }) => String(sql))].join(';\n')
  db.close()
  return schema
}

const SUSPECT_MIN = 2
const NEVER = Number.POSITIVE_INFINITY

const NEW_HEAD: Head = {
  owner: null,
  ownedSince: '',
  wakeAt: 0,
  waitFor: null,
  suspect: 0,
  asked: 0,
  seen: 0,
  isSetAside: false,
  isDeleting: false,
}

const declaredDead = (): Fault =>
  new Fault('journal_unreachable', { boundary: 'journal', errorRaw: 'this daemon was declared dead' })
