/**
 * A local model server from the configuration, run as a supervised child. Its port is chosen once, so that a try made after
 * a restart finds it where it was.
 */
import { createServer } from 'node:net'
import { type Fault, type FaultCategory } from '@breakfall/faults'
import { type ModelServer as Served, serveModel, sweepOrphans, toDiagnostic } from '@breakfall/supervisor'
import type { ModelConfig } from './options.ts'
import { within } from './engine/waiting.ts'

const VERDICT_MS = 2_000 // the socket breaks a moment before the exit is known, drained and judged
const RECENT_MS = 30_000

export type LocalModel = {
  readonly baseUrl: string
  /** When it can be asked, through restarts. Rejects where it was given up. */
  ready(signal: AbortSignal): Promise<void>
  /** The same fault with what the server said before it died. */
  explain(fault: Fault): Promise<Fault>
  stop(): Promise<void>
}

export async function startLocalModel(
  serve: NonNullable<ModelConfig['serve']>,
  options: { readonly stateDir: string; readonly now: () => number },
): Promise<LocalModel> {
  sweepOrphans(options.stateDir) // a server of a daemon that was killed together with its reaper
  const [command = '', ...args] = serve.command
  const port = await freePort()
  const server = serveModel({
    command,
    args: (run) => args.map((arg) => arg.replaceAll('{port}', String(run.port))),
    port,
    stateDir: options.stateDir,
    ...(serve.healthPath === undefined ? {} : { healthPath: serve.healthPath }),
  })
  // A server that cannot start is reported by whoever needs it: the daemon serves without it.
  server.start().catch(() => undefined)
  return {
    baseUrl: `http://127.0.0.1:${port}/v1`,
    ready: async (signal) => void (await server.ready(signal)),
    explain: (fault) => explained(server, fault, options.now),
    stop: async () => void (await server.stop()),
  }
}

// ---- details ----

/** Faults by which a crashed server shows at its socket. */
const SIGNS: ReadonlySet<FaultCategory> = new Set([
  'model_unreachable',
  'model_stream_interrupted',
  'model_stream_incomplete',
  'model_stream_stalled',
] satisfies FaultCategory[])

async function explained(server: Served, fault: Fault, now: () => number): Promise<Fault> {
  if (!SIGNS.has(fault.category)) return fault
  const { supervised } = server
  const isUp = supervised.state.status === 'ready' || supervised.state.status === 'busy'
  if (isUp && fault.report.phase !== 'connect') await within(exited(server), VERDICT_MS)
  const { report } = supervised
  if (report === null || report.expected) return fault
  const endedAt = Date.parse(report.startedAt) + report.uptimeMs
  if (now() - endedAt > RECENT_MS) return fault
  const [head] = report.diagnoses
  const why = head === undefined ? `${report.name} ended` : `${report.name}: ${head.message}`
  return fault.with({
    error: `${fault.error} The model server crashed (${why}) and is restarted.`,
    diagnostics: [...fault.report.diagnostics, ...report.diagnoses.map(toDiagnostic)],
  })
}

function exited(server: Served): Promise<void> {
  return new Promise((resolve) => {
    const forget = server.supervised.on((event) => {
      if (event.type !== 'exit') return
      forget()
      resolve()
    })
  })
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', reject)
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address()
      probe.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0))
    })
  })
}
