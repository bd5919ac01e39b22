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

function receive(signal: NodeJS.Signals): void {
  const handler = handlers.at(-1)
  if (handler === undefined) kept.push(signal)
  else handler(signal)
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, receive)

// What the launcher was sent while this program was not listening yet (see bin/breakfall.mjs).
const early = process.env['BREAKFALL_SIGNAL']
delete process.env['BREAKFALL_SIGNAL']
if (early !== undefined) receive(early as NodeJS.Signals)
