/**
 * SIGINT, SIGTERM and SIGHUP, from the program's first statement on. The newest handler gets each signal; a signal that arrives
 * before there is a handler waits for the first one.
 */

export type SignalHandler = (signal: NodeJS.Signals) => void

/** Handles every signal until it is disposed of, or a newer handler is registered. */
export function onSignal(handler: SignalHandler): Disposable {
  handlers.push(handler)
  for (const signal of waiting.splice(0)) handler(signal)
  return { [Symbol.dispose]: () => void handlers.splice(handlers.indexOf(handler), 1) }
}

// ---- details ----

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
const isHandled = (value: unknown): value is (typeof SIGNALS)[number] => SIGNALS.some((signal) => signal === value)

const handlers: SignalHandler[] = []
const waiting: NodeJS.Signals[] = []

let hasLauncher = false
let hasHungUp = false

type Route = 'direct' | 'launcher'

/** Signals that have arrived by one route and not yet by the other. */
const single: { readonly signal: NodeJS.Signals; readonly route: Route; readonly at: number }[] = []

/** A signal to the process group arrives by both routes and counts once. On a busy machine the second one is late. */
const TWIN_MS_MAX = 5_000

const PARENT_EVERY_MS = 500

function arrive(signal: NodeJS.Signals, route: Route): void {
  const now = performance.now()
  const twin = single.findIndex((one) => one.signal === signal && one.route !== route && now - one.at < TWIN_MS_MAX)
  if (twin !== -1) return void single.splice(twin, 1)
  if (hasLauncher) single.push({ signal, route, at: now })
  dispatch(signal)
}

function dispatch(signal: NodeJS.Signals): void {
  hasHungUp ||= signal === 'SIGHUP'
  const handler = handlers.at(-1)
  if (handler === undefined) waiting.push(signal)
  else handler(signal)
}

for (const signal of SIGNALS) process.on(signal, () => arrive(signal, 'direct'))

// `npm start` (scripts/start.mjs): a signal to npm ends its shell and not this program, so the death of either counts as one.
const parents = (process.env['BREAKFALL_PARENTS'] ?? '').split(',').map(Number).filter(Boolean)
delete process.env['BREAKFALL_PARENTS']
if (parents.length > 0) {
  const { ppid } = process
  const timer = setInterval(() => {
    if (process.ppid === ppid && parents.every(isAlive)) return
    clearInterval(timer)
    if (!hasHungUp) dispatch('SIGTERM') // they ended with the terminal, which this program knows already
  }, PARENT_EVERY_MS)
  timer.unref()
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

// On an older Node a launcher (scripts/become.mjs) stays beside this program. It passes on the signals that it received before
// this program was listening, and those that it receives later. If the launcher is killed, this program was meant.
const early = process.env['BREAKFALL_SIGNAL']
delete process.env['BREAKFALL_SIGNAL']
if (early !== undefined) {
  hasLauncher = true
  process.on('message', (message: { readonly signal: NodeJS.Signals }) => arrive(message.signal, 'launcher'))
  process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))
  process.channel?.unref()
  if (isHandled(early)) arrive(early, 'direct')
}
