/** `breakfall fleet`: a whole fleet on this machine, for you to break with keys or a script. At the end it prints what the checker found. */
import { EXIT_CODES, Fault } from '@breakfall/faults'
import type { Context } from '../context.ts'
import { actionOf, type FleetAction, KEYS_HELP, nameOf, needsNumber, parseScript } from '../fleet/actions.ts'
import { checkedLine, isKept } from '../fleet/check.ts'
import { LocalFleet } from '../fleet/local-fleet.ts'
import { nemesis } from '../fleet/nemesis.ts'
import { tableLines } from '../fleet/table.ts'
import { builtConsole } from '../console/build.ts'
import { untilSignal } from '../process/until-signal.ts'
import { chosenIsolation } from '../rehearsal/rehearse.ts'
import type { Output } from '../render/output.ts'
import { openConsole } from './open.ts'

export type FleetOptions = {
  readonly script?: string
  readonly seed?: number
  readonly actions: number
  readonly store?: string
  readonly turns: number
  readonly isolation?: 'bwrap' | 'process'
}

export async function fleetCommand({ out, config }: Context, options: FleetOptions): Promise<number> {
  const text = await scriptOf(options)
  const script = text === undefined ? undefined : parseScript(text)
  out.surviveClosedStdout()
  if (options.seed !== undefined && text !== undefined) tellSeed(out, options.seed, text)
  const stopped = untilSignal()
  const isolation = chosenIsolation(options.isolation, 'this fleet', out)
  const { store, turns } = options
  const steps = script === undefined ? STEPS_WATCHED : STEPS_SCRIPTED
  const setUp = { env: config.childEnv, isolation, store, turns, steps }
  await builtConsole() // once, for all daemons
  await using fleet = await LocalFleet.start(setUp, (what) => out.say(what))
  if (out.json) out.data({ event: 'listening', url: fleet.url, pid: process.pid, members: fleet.pids })
  const showConsole = (browse?: typeof config.childEnv): Promise<void> => openConsole(fleet.client, { out, browse })
  await showConsole()
  const isDrawn = !out.json && out.isTerminal
  const drawing = isDrawn ? startDrawing(fleet, out) : NOT_DRAWN
  const tell = (text: string): void => {
    fleet.note(text)
    if (!isDrawn && !out.json) out.line(text)
  }
  const act = async (action: FleetAction): Promise<void> => {
    if (out.json) out.data({ event: 'action', action: nameOf(action) })
    else tell(nameOf(action))
    if (action.do === 'open-console') return drawing.above(() => showConsole(config.childEnv))
    await fleet.act(action)
  }
  try {
    const over = new AbortController()
    void stopped.then(() => over.abort())
    await Promise.race([stopped, script === undefined ? pressed(act, fleet) : played(script, act, over.signal)])
    tell('repairing everything and waiting for the turns to end; Ctrl-C exits at once')
    const checked = await fleet.end()
    const isGood = isKept(checked)
    await drawing.stop()
    if (out.json) out.result({ outcome: isGood ? 'finished' : 'failed', ...checked })
    else out.line(out.style(isGood ? 'green' : 'red', checkedLine(checked)))
    return isGood ? EXIT_CODES.finished : EXIT_CODES.failed
  } finally {
    await drawing.stop()
  }
}

// ---- details, in the order they are used above ----

async function played(
  script: readonly FleetAction[],
  act: (action: FleetAction) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  for (const action of script) {
    if (action.do === 'quit' || signal.aborted) return
    await act(action)
  }
}

async function scriptOf({ script, seed, actions }: FleetOptions): Promise<string | undefined> {
  if (seed === undefined) return script
  if (script !== undefined)
    throw new Fault('invalid_request', { error: 'Nothing was started. Pass either --script or --seed.' })
  const { randomSequence } = await import('@breakfall/chaos/internal')
  return nemesis(randomSequence('fleet', seed), actions)
}

/** Whoever sees a failure can run it again, action by action. */
function tellSeed(out: Output, seed: number, script: string): void {
  if (out.json) out.data({ event: 'seed', seed, script })
  else out.line(`seed ${seed}: ${script}`)
}

const REDRAW_MS = 500
const STEPS_WATCHED = 60 // a person needs time to press keys
const STEPS_SCRIPTED = 8
const CTRL_C = '\x03'

type Drawing = {
  readonly stop: () => Promise<void>
  /** For something that prints lines: they stay, above the table. */
  readonly above: (print: () => Promise<void>) => Promise<void>
}

const NOT_DRAWN: Drawing = { stop: () => Promise.resolve(), above: (print) => print() }

/** Redraws the table in place. */
function startDrawing(fleet: LocalFleet, out: Output): Drawing {
  let drawn = 0
  let isOver = false
  const draw = async (): Promise<void> => {
    const view = await fleet.view()
    const help = KEYS_HELP.map((line) => out.style('dim', line.slice(0, out.columns - 1)))
    const lines = [...tableLines(view, out.columns - 1), ...help]
    if (drawn > 0) out.eraseLines(drawn)
    out.line(lines.join('\n'))
    drawn = lines.length
  }
  let drawing: Promise<void> | undefined
  const redraw = (): Promise<void> => {
    drawing ??= draw().finally(() => (drawing = undefined))
    return drawing
  }
  const timer = setInterval(() => void redraw(), REDRAW_MS)
  return {
    stop: async () => {
      if (isOver) return
      isOver = true
      clearInterval(timer)
      await drawing
      await redraw()
    },
    above: async (print) => {
      await drawing
      if (drawn > 0) out.eraseLines(drawn)
      drawn = 0
      drawing = print().finally(() => (drawing = undefined)) // nothing is drawn meanwhile
      await drawing
    },
  }
}

/** Acts on keys until `q`. Without a keyboard, until a signal. */
function pressed(act: (action: FleetAction) => Promise<void>, fleet: LocalFleet): Promise<void> {
  const { stdin } = process
  if (!stdin.isTTY) return new Promise(() => undefined)
  return new Promise((resolve) => {
    let word = ''
    const onKeys = (data: Buffer): void => {
      for (const key of data.toString()) {
        word = needsNumber(key) ? key : word + key
        const action = actionOf(word)
        if (action === undefined && needsNumber(word)) continue
        word = ''
        if (action?.do === 'quit' || key === CTRL_C) {
          stdin.off('data', onKeys)
          stdin.setRawMode(false)
          stdin.pause()
          return resolve()
        }
        if (action !== undefined)
          act(action).catch((error: unknown) => fleet.note(error instanceof Error ? error.message : String(error)))
      }
    }
    stdin.setRawMode(true)
    stdin.on('data', onKeys)
    stdin.resume()
  })
}
