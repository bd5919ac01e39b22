/**
 * The runner's side of the pump (pump-main.mjs), the process that copies what execs write from their pipes into their
 * spools: starts it, tells it which, hears how far it is.
 *
 * I1  There is one in a state folder: a note says which, and a new runner opens nothing before that one is gone.
 * I2  One that is killed is replaced and all execs go on; since it may have had bytes in its hands, each is told so.
 *     Where no other can be had, each is told that its output is not kept. Nobody waits for ever.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { RUNNER_DEFAULTS } from '../defaults.ts'
import { readJsonFile } from '../state/disk.ts'
import { spawnCovered } from '../state/inherited.ts'
import { isThere, prove, type Proven, sendSignal } from './process-table.ts'

export type PumpJob = {
  /** Of all its spools together. */
  readonly bytesMax: number
  readonly copies: readonly { readonly pipe: string; readonly spool: string }[]
}

export type PumpListener = {
  /** The spool of this copy has so many bytes now. */
  has(copy: number, bytes: number): void
  /** Nothing more is kept; with the reason where it was not the limit. */
  full(raw: string | undefined): void
  /** Bytes may have been lost. */
  lost(): void
}

export type PumpPlan = {
  readonly stateDir: string
  readonly machineBootId: string
  /** Descriptors that it must not get. */
  readonly inherited: readonly number[]
  readonly onTrouble: (what: string, error: unknown) => void
}

type Opened = { readonly job: PumpJob; readonly listener: PumpListener; done: (() => void) | undefined }
type News = readonly ['ready'] | readonly [number, 'has' | 'full' | 'done', (number | string | null)?, number?]

/** Waits for the end of an earlier runner's (I1). */
export async function startPump(plan: PumpPlan): Promise<Pump> {
  return new Pump(plan, await wasKilled(plan))
}

export class Pump {
  /** The one of the earlier runner was killed with, maybe, bytes in its hands. */
  readonly isAfterKill: boolean
  readonly #plan: PumpPlan
  readonly #opened = new Map<number, Opened>()
  #child: ChildProcess | undefined
  #restart: NodeJS.Timeout | undefined
  #serial = 0
  #begun = ''
  #isReady = false
  #isClosing = false

  constructor(plan: PumpPlan, isAfterKill: boolean) {
    this.#plan = plan
    this.isAfterKill = isAfterKill
    this.#start()
  }

  get pid(): number | undefined {
    return this.#child?.pid
  }

  /** From now on. The number stands for it in the other calls. */
  open(job: PumpJob, listener: PumpListener): number {
    const id = (this.#serial += 1)
    this.#opened.set(id, { job, listener, done: undefined })
    if (this.#child !== undefined) this.#sendOpen(id, job)
    else if (this.#restart === undefined) this.#start()
    return id
  }

  /** Resolves when what was left in its pipes is kept and told. Nobody may be left who could write. */
  rest(id: number): Promise<void> {
    return new Promise((resolve) => {
      const opened = this.#opened.get(id)
      if (opened === undefined) {
        resolve()
      } else {
        opened.done = resolve
        this.#send(['rest', id])
      }
    })
  }

  /** Nobody listens any more; what it still copies is found by the next runner. */
  forget(id: number): void {
    const opened = this.#opened.get(id)
    this.#opened.delete(id)
    opened?.done?.()
  }

  /** Resolves when it is gone. */
  async close(): Promise<void> {
    this.#isClosing = true
    clearTimeout(this.#restart)
    const child = this.#child
    if (child === undefined) return
    const gone = new Promise<void>((resolve) => void child.once('close', () => resolve()))
    child.stdin?.end()
    const over = new AbortController()
    await Promise.race([gone, sleep(RUNNER_DEFAULTS.pumpEndMs, undefined, { signal: over.signal }).catch(inTime)])
    over.abort()
    child.kill('SIGKILL')
  }

  // ---- details, in the order they are used above ----

  #start(): void {
    this.#restart = undefined
    this.#isReady = false
    this.#begun = ''
    let child: ChildProcess
    try {
      child = spawnPump(this.#plan)
    } catch (error) {
      this.#giveUp(error)
      return
    }
    this.#child = child
    child.once('error', (error) => this.#gone(child, error))
    child.once('close', (code, signal) => this.#gone(child, new Error(`it ended with ${signal ?? code}`)))
    child.stdout?.setEncoding('utf8').on('data', (text: string) => this.#hear(text))
    child.stdin?.on('error', () => {
      // It is gone, which its end says too.
    })
    for (const [id, { job, done }] of this.#opened) {
      this.#sendOpen(id, job)
      if (done !== undefined) this.#send(['rest', id])
    }
  }

  #sendOpen(id: number, { bytesMax, copies }: PumpJob): void {
    this.#send(['open', id, bytesMax, copies.map(({ pipe, spool }) => [pipe, spool])])
  }

  #send(words: readonly unknown[]): void {
    this.#child?.stdin?.write(`${JSON.stringify(words)}\n`)
  }

  #hear(text: string): void {
    const lines = (this.#begun + text).split('\n')
    this.#begun = lines.pop() ?? ''
    for (const line of lines) this.#heard(JSON.parse(line) as News)
  }

  #heard([id, what, ...facts]: News): void {
    if (id === 'ready') {
      this.#isReady = true
      return
    }
    const opened = this.#opened.get(id)
    if (what === 'has') opened?.listener.has(facts[0] as number, facts[1] as number)
    else if (what === 'full') opened?.listener.full((facts[0] as string | null) ?? undefined)
    else this.forget(id)
  }

  /** I2 */
  #gone(child: ChildProcess, error: Error): void {
    if (this.#child !== child) return
    this.#child = undefined
    if (this.#isClosing) return
    if (!this.#isReady) {
      this.#giveUp(error)
      return
    }
    this.#plan.onTrouble('the process that copies output was lost, and another takes its place', error)
    for (const { listener } of this.#opened.values()) listener.lost()
    rmSync(noteOf(this.#plan.stateDir), { force: true }) // that is told now
    this.#restart = setTimeout(() => this.#start(), RUNNER_DEFAULTS.pumpRestartMs)
  }

  /** I2. The next exec tries again. */
  #giveUp(error: unknown): void {
    this.#plan.onTrouble('no process to copy output could be started', error)
    for (const [id, { listener }] of this.#opened) {
      listener.full(String(error))
      this.forget(id)
    }
  }
}

const PROGRAM = fileURLToPath(new URL('pump-main.mjs', import.meta.url))
const FLAGS = ['--max-old-space-size=32', '--max-semi-space-size=1'] // it holds next to nothing, and shall not spread

const inTime = (): void => {
  // The wait was ended, since it was gone before.
}

const noteOf = (stateDir: string): string => join(stateDir, 'pump.json')

function spawnPump({ stateDir, machineBootId, inherited, onTrouble }: PumpPlan): ChildProcess {
  const child = spawnCovered(inherited, ['pipe', 'pipe', 'inherit'], (stdio) =>
    spawn(process.execPath, [...FLAGS, PROGRAM, noteOf(stateDir)], {
      cwd: '/',
      env: {},
      detached: true, // its own session: a signal to the runner's group does not reach it
      stdio,
    }),
  )
  try {
    // I1: before it is given anything to copy. It removes the note when it ends by itself.
    const proven = child.pid === undefined ? undefined : prove(child.pid)
    if (proven !== undefined) writeFileSync(noteOf(stateDir), JSON.stringify({ ...proven, machineBootId }))
  } catch (error) {
    onTrouble('the note of the process that copies output could not be written', error)
  }
  return child
}

/** Whether the earlier one ended otherwise than by itself. It ends with its runner, at once. */
async function wasKilled({ stateDir, machineBootId }: PumpPlan): Promise<boolean> {
  const file = noteOf(stateDir)
  const earlier = readNote(file)
  if (earlier === undefined) return false
  for (let waitedMs = 0; earlier.machineBootId === machineBootId && isThere(earlier); waitedMs += LOOK_MS) {
    if (waitedMs > 2 * RUNNER_DEFAULTS.pumpEndMs)
      throw new Error(`process ${earlier.pid}, which copied output for an earlier runner, does not end`)
    if (waitedMs > RUNNER_DEFAULTS.pumpEndMs) sendSignal(earlier.pid, 'SIGKILL')
    await sleep(LOOK_MS)
  }
  const isLeft = readNote(file) !== undefined
  rmSync(file, { recursive: true, force: true })
  return isLeft
}

const LOOK_MS = 5

function readNote(file: string): (Proven & { readonly machineBootId: string }) | undefined {
  try {
    const note = readJsonFile(file) as Partial<Proven & { readonly machineBootId: string }> | null | undefined
    if (note === undefined) return undefined
    const { pid = 0, startTime = 0, machineBootId = '' } = note ?? {}
    return { pid, startTime, machineBootId }
  } catch {
    return { pid: 0, startTime: 0, machineBootId: '' } // half written, or damaged: nobody's, but it is there
  }
}
