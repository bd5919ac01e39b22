/**
 * Virtual time: one heap of happenings, the processes they belong to, and the loop that runs them.
 *
 * I1  One happening per callback of the real `setImmediate`: Node drains promises in between, so the code under test always comes
 *     to rest between two happenings.
 * I2  A timer belongs to the process that set it. Nothing of a dead process runs; what belongs to a frozen one waits.
 * I3  The same plan gives the same trace: the hash covers the time, the process and the label of every happening.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { Heap } from './heap.ts'
import { hashOf, Random } from './random.ts'

const current = new AsyncLocalStorage<Process>()

export class Process {
  readonly name: string
  /** Another thread of that process: it dies with it, and shares its machine and its clock. */
  readonly threadOf: Process | undefined
  /** How far its wall clock is off. */
  skewMs = 0
  /** Its machine stands still: its events wait until then. */
  frozenUntil = 0
  /** Its event loop is blocked: its events wait until then, and those of its other threads do not. */
  stalledUntil = 0
  /** At most how long each of its events takes; the next one waits for it. */
  slowMs = 0
  isDead = false
  readonly dice: Random
  /** Runs something as this process. */
  readonly enter: <T>(work: () => T) => T

  constructor(name: string, dice: Random, threadOf?: Process) {
    this.name = name
    this.dice = dice
    this.threadOf = threadOf
    this.enter = current.run(this, () => AsyncLocalStorage.snapshot())
  }
}

type Event = {
  readonly at: number
  readonly nr: number
  readonly process: Process
  readonly label: string
  readonly run: () => void
  isCancelled: boolean
}

export type Scheduled = { cancel(): void }

export type Step = { readonly nr: number; readonly at: number; readonly process: string; readonly label: string }

/** When virtual time starts. */
export const START = Date.UTC(2027, 0, 1)

export class World {
  readonly seed: string | number
  readonly outside: Process
  /** The only place where files may be written. */
  readonly folder: string
  /** Whoever asks for a number between 0 and 1 gets the middle. */
  isEven = false
  readonly #heap = new Heap<Event>()
  #now = 0
  #nr = 0
  #steps = 0
  #hash = 0
  #failure: Error | undefined
  /** Called for every happening. */
  onStep: ((step: Step) => void) | undefined

  constructor(seed: string | number, folder: string) {
    this.seed = seed
    this.folder = folder
    this.outside = this.process('world')
  }

  /** Milliseconds since the universe began. */
  get now(): number {
    return this.#now
  }

  get steps(): number {
    return this.#steps
  }

  get hash(): string {
    return (this.#hash >>> 0).toString(16).padStart(8, '0')
  }

  process(name: string): Process {
    return new Process(name, new Random(this.seed, 'dice', name))
  }

  thread(name: string, of: Process): Process {
    return new Process(`${of.name} ${name}`, new Random(this.seed, 'dice', of.name, name), of)
  }

  random(...name: readonly (string | number)[]): Random {
    return new Random(this.seed, ...name)
  }

  /** Something that happens in a process. `soon`: within the same millisecond, after what is already due. */
  after(ms: number, process: Process, label: string, run: () => void): Scheduled {
    const event: Event = { at: this.#now + Math.max(0, ms), nr: ++this.#nr, process, label, run, isCancelled: false }
    this.#heap.push(event)
    return {
      cancel: () => {
        event.isCancelled = true
      },
    }
  }

  /** Runs synchronously as that process. */
  as<T>(process: Process, work: () => T): T {
    return process.enter(work)
  }

  /** A bug, or a broken rule: the universe ends here. */
  fail(failure: Error): void {
    this.#failure ??= failure
  }

  /** Until `isOver`, or nothing is left to happen, or the time has come. */
  run(isOver: () => boolean, untilMs: number): Promise<'over' | 'empty' | 'late'> {
    return new Promise((resolve, reject) => {
      let pending = 0
      let isDone = false
      const finish = (how: 'over' | 'empty' | 'late'): void => {
        isDone = true
        resolve(how)
      }
      const step = (): void => {
        pending -= 1
        if (isDone) return
        try {
          if (this.#failure !== undefined) throw this.#failure
          if (isOver()) return finish('over')
          const event = this.#next()
          if (event === undefined) return finish('empty')
          if (event.at > untilMs) {
            this.#heap.push(event)
            return finish('late')
          }
          this.#perform(event) // I1
          refill()
        } catch (thrown) {
          isDone = true
          reject(thrown)
        }
      }
      const refill = (): void => {
        if (pending > 8) return
        for (; pending < QUEUED; pending += 1) REAL.setImmediate(step)
      }
      refill()
    })
  }

  #next(): Event | undefined {
    for (;;) {
      const event = this.#heap.pop()
      if (event === undefined) return undefined
      const { process } = event
      const { isDead, frozenUntil } = process.threadOf ?? process
      if (event.isCancelled || isDead) continue // I2
      const standsUntil = Math.max(frozenUntil, process.stalledUntil)
      if (standsUntil <= event.at || process === this.outside) return event
      this.#heap.push({ ...event, at: standsUntil }) // I2: in its order, when the process wakes
    }
  }

  #perform(event: Event): void {
    this.#now = event.at
    this.#steps += 1
    this.#hash = hashOf(`${event.at} ${event.process.name} ${event.label}`, this.#hash) // I3
    this.onStep?.({ nr: this.#steps, at: event.at, process: event.process.name, label: event.label })
    const { process } = event
    if (process.slowMs > 0 && process !== this.outside)
      process.stalledUntil = Math.max(process.stalledUntil, event.at + process.dice.whole(0, process.slowMs))
    process.enter(event.run)
  }
}

/** The world that is running, for the functions that replace Node's own. */
let world: World | undefined

export const setWorld = (next: World | undefined): void => {
  world = next
}

export function theWorld(): World {
  if (world === undefined) throw new Error('There is no universe here.')
  return world
}

export const hasWorld = (): boolean => world !== undefined

/** The process that this code belongs to. */
export const here = (): Process => current.getStore() ?? theWorld().outside

/** Node's own functions, which only the loop uses. */
export const REAL = {
  setImmediate: globalThis.setImmediate,
  Date: globalThis.Date,
  hrtime: process.hrtime.bigint.bind(process.hrtime),
  random: Math.random,
} as const

// ---- details ----

const QUEUED = 32
