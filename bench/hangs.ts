/** How long it takes to detect a model server that hangs, with the default limits and real children. */
import { fileURLToPath } from 'node:url'
import { isFault } from '@breakfall/faults'
import { serveModel } from '@breakfall/supervisor'

const PROGRAM = fileURLToPath(new URL('../packages/supervisor/test/programs/hangs-or-is-slow.ts', import.meta.url))

/** What the server does in the middle of an answer. */
const HANGS = {
  'half-stops': 'SIGSTOP',
  'half-blocks': '/health is dead, too, and the process does nothing',
  'half-forgets': '/health answers, but nothing else moves',
} as const

const measured = await Promise.all(Object.entries(HANGS).map(async ([how, what]) => ({ what, ...(await detect(how)) })))
for (const { what, seconds, said } of measured)
  process.stdout.write(`${what}: detected after ${seconds.toFixed(1)} s (${said})\n`)

// ---- details ----

/** From the request to its fault. The server sends half an answer at once. */
async function detect(how: string): Promise<{ readonly seconds: number; readonly said: string }> {
  const args = ({ port }: { readonly port: number }): string[] => [PROGRAM, `${port}`, how, '0']
  await using server = serveModel({ name: 'the server', command: process.execPath, args })
  await server.start()
  const from = performance.now()
  try {
    return { seconds: 0, said: await (await server.fetch('/answer')).text() }
  } catch (thrown) {
    return { seconds: (performance.now() - from) / 1_000, said: isFault(thrown) ? thrown.error : String(thrown) }
  }
}
