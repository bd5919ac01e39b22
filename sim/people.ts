/**
 * The people of a universe: clients that create sessions, send prompts and answer approvals, readers that move between daemons, and
 * those who cancel, resume and delete. They reach a daemon over a network that takes a while, and ask again until they are answered.
 */
import { startOf } from '../packages/daemon/src/api/events.ts'
import type { OpenEngine } from '../packages/engine/src/open-engine.ts'
import { isFault } from '../packages/faults/src/index.ts'
import type { Process, World } from './host/time.ts'
import type { Aside, Plan, PlannedTurn } from './plan.ts'
import type { Reader, Rules } from './rules.ts'
import { promptOf } from './world/model.ts'

/** What a daemon is made of. */
export type Parts = OpenEngine

/** Where people find daemons. */
type Towards = {
  /** Those that serve now. */
  daemons(): readonly ({ readonly process: Process; readonly parts: Parts | undefined } | undefined)[]
  /** No daemon lives for days. */
  isAway(): boolean
}

export class People {
  readonly #plan: Plan
  readonly #world: World
  readonly #rules: Rules
  readonly #towards: Towards
  readonly readers: Reader[] = []
  /** Prompts without an answer. */
  promptsOpen = 0
  readonly #sessionIds: (string | undefined)[] = []
  /** Sessions that somebody deletes, by their number. */
  readonly #deleted = new Set<number>()

  constructor(plan: Plan, world: World, rules: Rules, towards: Towards) {
    this.#plan = plan
    this.#world = world
    this.#rules = rules
    this.#towards = towards
  }

  /** Everybody does at its time what the plan says. */
  begin(): void {
    const { sessions, resumes, asides, quits, deletes } = this.#plan
    for (const [nr, session] of sessions.entries()) this.#lead(nr, session)
    for (const { at, session } of resumes) this.#at(at, 'somebody resumes', () => this.#resume(session))
    for (const aside of asides) this.#at(aside.at, 'an aside', () => this.#aside(aside))
    for (const { at, session } of quits) this.#at(at, 'somebody quits', () => this.#quit(session))
    for (const { at, session } of deletes) this.#at(at, 'somebody deletes', () => this.#delete(session))
  }

  // ---- details, in the order they are used above ----

  /** Creates a session, sends its prompts in their order, answers its approvals, and reads its events. */
  #lead(nr: number, { name, approve, turns }: Plan['sessions'][number]): void {
    const client = this.#world.process(`client-${name}`)
    this.promptsOpen += turns.length
    this.#world.after(100, client, 'leads', () => {
      void (async () => {
        const created = await this.#insist(client, `create ${name}`, ({ sessions }) =>
          sessions.create({ tools: ['bash', 'write', 'edit'], policy: { approve } }, name),
        )
        this.#sessionIds[nr] = created.id
        this.#follow(name, created.id)
        for (const turn of turns) {
          await until(this.#world, turn.at)
          const send = ({ sessions }: Parts): Promise<{ readonly turnId: string }> =>
            sessions.prompt(created.id, { prompt: promptOf(turn.key), queue: true }, turn.key)
          if (turn.isTwice === true)
            this.#once(client, `prompt ${turn.key} elsewhere`, send).then(
              ({ turnId }) => this.#rules.accepted(turn.key, created.id, turnId),
              () => undefined, // the other one counts
            )
          const receipt = await this.#insist(client, `prompt ${turn.key}`, send, nr)
          this.promptsOpen -= 1
          if (receipt === undefined) continue
          const { turnId } = receipt
          this.#rules.accepted(turn.key, created.id, turnId)
          if (turn.cancelAt !== null) this.#cancel(client, nr, turn.cancelAt, turnId)
          if (approve === 'always') this.#answer(client, nr, turn, turnId)
        }
      })()
    })
  }

  #cancel(client: Process, nr: number, at: number, turnId: string): void {
    this.#at(at, 'somebody cancels', () => {
      void this.#insist(
        client,
        `cancel ${turnId}`,
        ({ sessions }) => sessions.cancel(turnId, { actor: 'user', reason: null }),
        nr,
      ).then(() => this.#rules.cancelled(turnId))
    })
  }

  /** Answers every call that waits, until the turn is over. */
  #answer(client: Process, nr: number, { answer, answerMs }: PlannedTurn, turnId: string): void {
    if (answer === 'never') return
    const look = async (): Promise<void> => {
      for (;;) {
        await new Promise((resolve) => setTimeout(resolve, answerMs))
        const turn = await this.#insist(client, 'look', ({ sessions }) => sessions.turn(turnId), nr)
        if (turn === undefined || turn.endedAt !== null) return
        const callId = turn.approval?.callId
        if (callId === undefined) continue
        const approve = (which: string): Promise<unknown> =>
          this.#once(client, 'approve', ({ sessions }) => sessions.approve(turnId, { callId: which, decision: answer }))
        // Some people press twice, and some answer a call that was never asked about.
        if (client.dice.chance(0.2)) void approve(callId).catch(() => undefined)
        const other = client.dice.chance(0.1) ? await approve('another').catch(() => undefined) : undefined
        if (other !== undefined) this.#rules.approvedAnother(turnId)
        const asked = await approve(callId).catch(() => undefined)
        if (asked !== undefined) this.#rules.reach('approved')
      }
    }
    this.#world.as(client, () => void look())
  }

  #aside({ session, key, isQueued = false }: Aside): void {
    const sessionId = this.#sessionIds[session]
    if (sessionId === undefined) return
    const client = this.#world.process(`aside ${key}`)
    this.#world.as(client, () => {
      this.#once(client, `prompt ${key}`, ({ sessions }) =>
        sessions.prompt(sessionId, { prompt: promptOf(key), queue: isQueued }, key),
      ).then(
        ({ turnId }) => this.#rules.accepted(key, sessionId, turnId),
        (thrown: unknown) => this.#rules.notAccepted(key, thrown),
      )
    })
  }

  #delete(nr: number): void {
    const sessionId = this.#sessionIds[nr]
    if (sessionId === undefined || this.#deleted.has(nr)) return
    this.#deleted.add(nr)
    const client = this.#world.process('deleter')
    this.#world.as(client, () => {
      void this.#insist(client, 'delete', ({ sessions }) => sessions.delete(sessionId), nr).then(() =>
        this.#rules.deleting(sessionId),
      )
    })
  }

  #resume(nr: number): void {
    const sessionId = this.#sessionIds[nr]
    if (sessionId === undefined) return
    const client = this.#world.process('resumer')
    this.#world.as(client, () => {
      void (async () => {
        try {
          const session = await this.#once(client, 'get', ({ sessions }) => sessions.get(sessionId))
          const { turnId } = session
          if (turnId === null || session.state !== 'parked') return
          const resuming = this.#rules.resuming(sessionId, turnId)
          await this.#once(client, 'resume', ({ sessions }) => sessions.resume(turnId))
          this.#rules.reach('resumed')
          resuming.answered()
        } catch {
          // Refused, or lost on the way: the person does not insist.
        }
      })()
    })
  }

  /** Cancels whatever turn the session has. */
  #quit(nr: number): void {
    const sessionId = this.#sessionIds[nr]
    if (sessionId === undefined) return
    const client = this.#world.process('quitter')
    this.#world.as(client, () => {
      void this.#once(client, 'get', ({ sessions }) => sessions.get(sessionId)).then(
        ({ turnId }) => {
          if (turnId !== null) this.#cancel(client, nr, this.#world.now, turnId)
        },
        () => undefined, // the person does not insist
      )
    })
  }

  /** Reads a session's events at any daemon, and goes to another one when its own is gone. */
  #follow(name: string, sessionId: string): void {
    const process = this.#world.process(`reader-${name}`)
    const reader: Reader = { sessionId, seen: [], resets: 0 }
    this.readers.push(reader)
    const dice = this.#world.random('reader', name)
    const connect = (): void => {
      const daemon = this.#alive(dice.whole(0, 99))
      const again = (): void =>
        void this.#world.after(this.#towards.isAway() ? HOURS_MS : 500, process, 'reads again', connect)
      if (daemon?.parts === undefined) return again()
      let isOver = false
      const { sessions } = daemon.parts
      const after = reader.seen.at(-1)?.seq ?? 0
      this.#world.after(2, daemon.process, 'reads', () => {
        void (async () => {
          try {
            const reading = await sessions.view(sessionId)
            const start = startOf(reading, after === 0 ? undefined : `${reading.journal}-${after}`)
            if (start.reset !== null) reader.resets += 1
            const stop = new AbortController()
            const since = this.#world.now
            setTimeout(
              () => {
                this.#rules.isReading(reader, since)
                stop.abort()
              },
              dice.whole(500, 60_000),
            )
            for await (const events of reading.feed.tail(start.after, stop.signal))
              for (const { seq, body } of events) this.#rules.read(reader, seq, body)
          } catch {
            // Refused now: the reader tries again elsewhere.
          }
          isOver = true
          again()
        })()
      })
      // A daemon that dies or freezes says nothing: the reader notices by the silence.
      const watched = daemon.process
      const look = (): void => {
        if (isOver) return
        if (watched.isDead) again()
        else this.#world.after(1_000, process, 'still reads', look)
      }
      look()
    }
    this.#world.after(0, process, 'reads', connect)
  }

  #insist<T>(client: Process, label: string, work: (parts: Parts) => Promise<T>): Promise<T>
  #insist<T>(client: Process, label: string, work: (parts: Parts) => Promise<T>, nr: number): Promise<T | undefined>
  /** Sends a request again, under its key and perhaps elsewhere, until it is answered. Undefined: that session was deleted. */
  async #insist<T>(
    client: Process,
    label: string,
    work: (parts: Parts) => Promise<T>,
    nr?: number,
  ): Promise<T | undefined> {
    for (;;) {
      try {
        return await this.#once(client, label, work)
      } catch (thrown) {
        const isGone = nr !== undefined && this.#deleted.has(nr)
        if (isGone && isFault(thrown) && thrown.category === 'not_found') return undefined
        if (isFault(thrown)) this.#rules.refused(label, thrown)
        await new Promise((resolve) => setTimeout(resolve, this.#towards.isAway() ? HOURS_MS : 700))
      }
    }
  }

  /** One request to one daemon, over a network that takes a while. */
  #once<T>(client: Process, label: string, work: (parts: Parts) => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const daemon = this.#alive(client.dice.whole(0, 99))
      this.#rules.asked()
      const timer = setTimeout(() => reject(new Error('no answer')), 12_000)
      const parts = daemon?.parts
      if (daemon === undefined || parts === undefined) return
      const answered = (settle: () => void): void => {
        if (daemon.process.isDead) return
        this.#world.after(2, client, `${label} answered`, () => {
          clearTimeout(timer)
          settle()
        })
      }
      this.#world.after(2, daemon.process, label, () => {
        work(parts).then(
          (value) => answered(() => resolve(value)),
          (error: unknown) => answered(() => reject(error)),
        )
      })
    })
  }

  #alive(choice: number): ReturnType<Towards['daemons']>[number] {
    const ready = this.#towards.daemons()
    return ready[choice % Math.max(ready.length, 1)]
  }

  #at(at: number, label: string, run: () => void): void {
    this.#world.after(at - this.#world.now, this.#world.outside, label, run)
  }
}

// ---- details ----

/** While nobody is there. */
const HOURS_MS = 6 * 3_600_000

const until = (world: World, at: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, Math.max(1, at - world.now)))
