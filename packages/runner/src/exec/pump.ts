/**
 * The runner's side of the pump, the process that copies what execs write from their pipes into their spools: starts it,
 * tells it what to copy, and hears how far it is. The protocol is in pump-main.mjs.
 *
 * I1  A killed pump is replaced and all execs continue. It may have held bytes, so each exec learns that some may be lost.
 * I2  If no pump can be started, each exec learns that its output is not kept. No exec waits forever.
 */
import type { ChildProcess } from 'node:child_process'
import { rmSync } from 'node:fs'
import { within } from '@breakfall/faults/internal'
import { RUNNER_DEFAULTS } from '../lib/defaults.ts'
import { pumpNote, type PumpSetup, spawnPump, wasPumpKilled } from './pump-process.ts'

export type PumpJob = {
  /** Of all its spools together. */
  readonly bytesMax: number
  readonly copies: readonly { readonly pipe: string; readonly spool: string }[]
}

export type PumpListener = {
  /** The spool of this copy has this many bytes now. */
  onBytes(copy: number, bytes: number): void
  /** Nothing more is kept; with the error, unless the limit was the reason. */
  onFull(raw: string | undefined): void
  /** Bytes may have been lost. */
  onLoss(): void
  /** No pump can be started, so nothing more is kept. */
  onUnavailable(raw: string): void
}

/** Waits until an earlier runner's pump is gone. */
export async function startPump(setup: PumpSetup): Promise<Pump> {
  return new Pump(setup, await wasPumpKilled(setup))
}

export class Pump {
  /** The earlier runner's pump was killed and may have held bytes. */
  readonly isAfterKill: boolean
  readonly #setup: PumpSetup
  readonly #open = new Map<number, Open>()
  #child: ChildProcess | undefined
  #restart: NodeJS.Timeout | undefined
  #serial = 0
  #partialLine = ''
  #isReady = false
  #onReady: (() => void)[] = []
  #isClosing = false

  constructor(setup: PumpSetup, isAfterKill: boolean) {
    this.#setup = setup
    this.isAfterKill = isAfterKill
    this.#start()
  }

  get pid(): number | undefined {
    return this.#child?.pid
  }

  /** Starts copying. The other calls take the id that this returns. */
  open(job: PumpJob, listener: PumpListener): number {
    const id = (this.#serial += 1)
    this.#open.set(id, { job, listener, onDrained: undefined })
    if (this.#child !== undefined) this.#sendOpen(id, job)
    else if (this.#restart === undefined) this.#start()
    return id
  }

  /** Calls back once a pump runs: now if one does, and never if none can be started. Listeners hear about that. */
  whenReady(then: () => void): void {
    if (this.#child !== undefined && this.#isReady) then()
    else this.#onReady.push(then)
  }

  /** Resolves when everything in the pipes is copied and reported. No process may be left that could write. */
  drain(id: number): Promise<void> {
    return new Promise((resolve) => {
      const open = this.#open.get(id)
      if (open === undefined) {
        resolve()
      } else {
        open.onDrained = resolve
        this.#send(['drain', id])
      }
    })
  }

  /** Reports nothing more about it. What is still copied is found by the next runner. */
  forget(id: number): void {
    const open = this.#open.get(id)
    this.#open.delete(id)
    open?.onDrained?.()
  }

  /** Resolves when the process is gone. */
  async close(): Promise<void> {
    this.#isClosing = true
    clearTimeout(this.#restart)
    const child = this.#child
    if (child === undefined) return
    const gone = new Promise<void>((resolve) => void child.once('close', () => resolve()))
    child.stdin?.end()
    await within(gone, RUNNER_DEFAULTS.pumpEndMs)
    child.kill('SIGKILL')
  }

  // ---- details, in the order they are used above ----

  #start(): void {
    this.#restart = undefined
    this.#isReady = false
    this.#partialLine = ''
    let child: ChildProcess
    try {
      child = spawnPump(this.#setup)
    } catch (error) {
      this.#giveUp(error)
      return
    }
    this.#child = child
    child.once('error', (error) => this.#gone(child, error))
    child.once('close', (code, signal) => this.#gone(child, new Error(`it ended with ${signal ?? code}`)))
    child.stdout?.setEncoding('utf8').on('data', (text: string) => this.#receive(text))
    child.stdin?.on('error', () => {
      // The process is gone; its 'close' event reports that.
    })
    for (const [id, { job, onDrained }] of this.#open) {
      this.#sendOpen(id, job)
      if (onDrained !== undefined) this.#send(['drain', id])
    }
  }

  #sendOpen(id: number, { bytesMax, copies }: PumpJob): void {
    this.#send(['open', id, bytesMax, copies.map(({ pipe, spool }) => [pipe, spool])])
  }

  #send(message: readonly unknown[]): void {
    this.#child?.stdin?.write(`${JSON.stringify(message)}\n`)
  }

  #receive(text: string): void {
    const lines = (this.#partialLine + text).split('\n')
    this.#partialLine = lines.pop() ?? ''
    for (const line of lines) this.#handle(JSON.parse(line))
  }

  #handle(message: unknown): void {
    const [id, what, first, second]: readonly unknown[] = Array.isArray(message) ? message : []
    if (id === 'ready') {
      this.#isReady = true
      for (const then of this.#onReady.splice(0)) then()
    }
    if (typeof id !== 'number') return
    const listener = this.#open.get(id)?.listener
    if (what === 'has') listener?.onBytes(Number(first), Number(second))
    else if (what === 'full') listener?.onFull(typeof first === 'string' ? first : undefined)
    else this.forget(id)
  }

  /** I1: replaced, and every exec learns of it. */
  #gone(child: ChildProcess, error: Error): void {
    if (this.#child !== child) return
    this.#child = undefined
    if (this.#isClosing) return
    if (!this.#isReady) {
      this.#giveUp(error)
      return
    }
    this.#setup.onProblem('the process that copies output was killed and is being replaced', error)
    for (const { listener } of this.#open.values()) listener.onLoss()
    rmSync(pumpNote(this.#setup.stateDir), { force: true }) // the loss is reported now
    this.#restart = setTimeout(() => this.#start(), RUNNER_DEFAULTS.pumpRestartMs)
  }

  /** I2. The next exec tries again. */
  #giveUp(error: unknown): void {
    this.#setup.onProblem('cannot start the process that copies output', error)
    this.#onReady = []
    for (const [id, { listener }] of this.#open) {
      listener.onUnavailable(String(error))
      this.forget(id)
    }
  }
}

type Open = { readonly job: PumpJob; readonly listener: PumpListener; onDrained: (() => void) | undefined }
