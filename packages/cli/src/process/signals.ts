/**
 * SIGINT, SIGTERM and SIGHUP, from the program's first moment on. Whoever can end its work in order takes them over; what comes
 * while nobody has is kept for the first who does.
 */

export type SignalHandler = (signal: NodeJS.Signals) => void

/** Until it is disposed of, the newest handler gets every signal. */
export function onSignal(handler: SignalHandler): Disposable {
  handlers.push(handler)
  for (const signal of kept.splice(0)) handler(signal)
  return { [Symbol.dispose]: () => void handlers.splice(handlers.indexOf(handler), 1) }
}

// ---- details ----

const handlers: SignalHandler[] = []
const kept: NodeJS.Signals[] = []

let hasLauncher = false

type Way = 'itself' | 'launcher'

/** By one way, and not yet by the other. */
const single: { readonly signal: NodeJS.Signals; readonly way: Way; readonly at: number }[] = []

/** A signal to the process group comes by both ways, and is one. On a busy machine the second is late; later than this it is another. */
const TWIN_MS_MAX = 5_000

function arrive(signal: NodeJS.Signals, way: Way): void {
  const now = performance.now()
  const twin = single.findIndex((one) => one.signal === signal && one.way !== way && now - one.at < TWIN_MS_MAX)
  if (twin !== -1) return void single.splice(twin, 1)
  if (hasLauncher) single.push({ signal, way, at: now })
  receive(signal)
}

function receive(signal: NodeJS.Signals): void {
  const handler = handlers.at(-1)
  if (handler === undefined) kept.push(signal)
  else handler(signal)
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => arrive(signal, 'itself'))

// The launcher of an older Node (scripts/become.mjs) tells what it was sent while this program was not listening yet, what it
// is sent from then on, and, by its end, that somebody has killed it and meant this program.
const early = process.env['BREAKFALL_SIGNAL']
delete process.env['BREAKFALL_SIGNAL']
if (early !== undefined) {
  hasLauncher = true
  process.on('message', (message: { readonly signal: NodeJS.Signals }) => arrive(message.signal, 'launcher'))
  process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))
  process.channel?.unref()
  if (early !== '') arrive(early as NodeJS.Signals, 'itself')
}
