/** `breakfall gateway`: serves the gateway until a signal ends it, with a live view on request. */
import { EXIT_CODES, Fault, isFault, redact } from '@breakfall/faults'
import { type GatewayLog, startGateway } from '@breakfall/gateway'
import type { Hold, ProfileName, RepairMode } from '@breakfall/model/names'
import { loadTokens } from '@breakfall/wire/node'
import type { Context } from '../../command-line/context.ts'
import { listenFault } from '../../process/system-errors.ts'
import { logLine, warningLine } from '../../render/log-lines.ts'
import { refuseWithoutFolder } from '../../process/state-folder.ts'
import { startTelemetry } from '../../telemetry/otlp.ts'
import { untilSignal } from '../../terminal/interrupt.ts'
import type { Output } from '../../terminal/output.ts'
import { watchLines } from './live-view.ts'
import { type GatewayLine, noteLine, requestLine, totalsLine } from './request-lines.ts'

export type GatewayOptions = {
  readonly upstream?: readonly string[]
  readonly port?: number
  readonly host: string
  readonly hold?: Hold
  readonly empty?: 'ask-again' | 'accept'
  readonly stopLoops?: number
  readonly repair?: RepairMode
  readonly profile?: ProfileName
  readonly tokenFile?: string
  readonly allowHost?: readonly string[]
  readonly watch?: boolean
}

export async function gatewayCommand({ config, out }: Context, options: GatewayOptions): Promise<number> {
  const configured = config.gateway.upstream
  const upstream = options.upstream ?? (configured === undefined ? undefined : [configured])
  if (upstream === undefined)
    throw new Fault('invalid_request', {
      error: 'The gateway needs a model server: --upstream http://127.0.0.1:8080/v1',
    })
  const { host, port = 0, tokenFile, profile, allowHost = [] } = options
  if (tokenFile !== undefined) refuseWithoutFolder(tokenFile)
  const watches = options.watch === true && !out.json
  const printsLines = !watches && !out.json && out.isStderrTerminal
  out.surviveClosedStdout()
  const stopped = untilSignal()
  const telemetry = await startTelemetry(config.otlpEndpoint, (sentence) => {
    const line = warningLine(sentence, Date.now())
    if (!watches) out.say(printsLines ? logLine(line) : line) // a line would break the live view
  })
  const gateway = await startGateway({
    upstream,
    port,
    host,
    hold: options.hold ?? config.gateway.hold,
    empty: options.empty,
    stopLoops: options.stopLoops,
    repair: options.repair,
    profile,
    policy: config.policy,
    token: tokenFile === undefined ? undefined : loadTokens(tokenFile)[0]?.token,
    hosts: allowHost,
    ...(watches ? { logger: false as const } : printsLines ? { logger: lineLog(out) } : {}),
  }).catch((error: unknown) => {
    throw optionFault(error, options.upstream === undefined) ?? listenFault(error, host, port)
  })
  if (out.json) out.data({ event: 'listening', url: gateway.url })
  else {
    out.line(`${gateway.url}  →  ${upstream.map(redact).join(', then ')}`)
    out.line(out.style('dim', 'use the first URL as the base URL of your agent; stop with Ctrl-C'))
    const bare = upstream.find((url) => new URL(url).pathname === '/')
    if (bare !== undefined)
      out.say(out.styleErr('yellow', `Most model servers need /v1 at the end: ${redact(bare)} has no path.`))
  }
  if (printsLines) gateway.watch.subscribe((note) => say(out, note === undefined ? undefined : noteLine(note)))
  const stopWatching = watches ? startWatching(() => watchLines(gateway.stats(), out.columns), out) : () => undefined
  await stopped
  stopWatching()
  await gateway.close()
  await telemetry.stop()
  const { totals } = gateway.stats()
  if (out.json) out.result(totals)
  else if (printsLines) out.line(totalsLine(totals))
  return EXIT_CODES.finished
}

// ---- details ----

/** Names the wrong option as the command line calls it. */
function optionFault(error: unknown, isConfigured: boolean): Fault | undefined {
  const [wrong] = isFault(error) ? (error.report.errors ?? []) : []
  if (!isFault(error) || wrong === undefined) return undefined
  const { field, expected, got } = wrong
  if (field === 'upstream') {
    const name = isConfigured ? '[gateway] upstream' : '--upstream'
    const sentence = `${name} takes ${expected}, such as http://127.0.0.1:8080/v1, got ${got}`
    return error.with({ error: sentence, errorRaw: sentence })
  }
  if (field !== 'token') return undefined
  const sentence = `--host needs ${expected}: add --token-file FILE; the file is created if it is missing`
  return error.with({ error: sentence, errorRaw: sentence })
}

/** On a terminal: a readable line per request instead of JSON. */
function lineLog(out: Output): GatewayLog {
  const now = (): string => new Date().toISOString()
  return {
    info: (entry, text) => say(out, requestLine(entry, text, false, now())),
    warn: (entry, text) => say(out, requestLine(entry, text, true, now())),
  }
}

const STYLES = { good: 'green', warn: 'yellow', bad: 'red', dim: 'dim' } as const

function say(out: Output, line: GatewayLine | undefined): void {
  if (line !== undefined) out.say(out.styleErr(STYLES[line.tone], line.text))
}

const REDRAW_MS = 250

/** Redraws the lines in place on a terminal; elsewhere prints each change once. */
function startWatching(lines: () => readonly string[], out: Output): () => void {
  let drawn = 0
  let last = ''
  const draw = (): void => {
    const now = lines()
    const text = now.join('\n')
    if (text === last) return
    last = text
    if (out.isTerminal && drawn > 0) out.eraseLines(drawn)
    out.line(text)
    drawn = now.length
  }
  draw()
  const timer = setInterval(draw, REDRAW_MS)
  return () => {
    clearInterval(timer)
    draw()
  }
}
