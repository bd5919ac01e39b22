/** `breakfall gateway`: the gateway in this process, until it is asked to end, with a live view on request. */
import { EXIT_CODES, Fault, isFault } from '@breakfall/faults'
import { type GatewayLog, type GatewayOptions, startGateway } from '@breakfall/gateway'
import { loadTokens } from '@breakfall/wire/node'
import type { Context } from '../program.ts'
import { type GatewayLine, noteLine, requestLine, totalsLine } from '../render/gateway-lines.ts'
import { watchLines } from '../render/gateway-watch.ts'
import { listenFault } from '../process/start-errors.ts'
import { untilAsked } from '../process/until-signal.ts'

export async function gatewayCommand({ options, loaded, out }: Context): Promise<number> {
  const named = options['upstream'] as readonly string[] | undefined
  const configured = loaded.config.gateway?.upstream ?? loaded.config.model?.baseUrl
  const upstream = named ?? (configured === undefined ? undefined : [configured])
  if (upstream === undefined)
    throw new Fault('invalid_request', {
      error: 'say which model server to put it before: --upstream http://127.0.0.1:8080/v1',
    })
  const host = options['host'] as string
  const port = (options['port'] as number | undefined) ?? 0
  const tokenFile = options['tokenFile'] as string | undefined
  const watching = options['watch'] === true && !out.json
  const telling = !watching && !out.json && out.isTalkTerminal
  out.outlivesItsReader()
  const asked = untilAsked()
  const gateway = await startGateway({
    upstream,
    port,
    host,
    hold: (options['hold'] ?? loaded.config.gateway?.hold) as GatewayOptions['hold'],
    profile: options['profile'] as GatewayOptions['profile'],
    policy: loaded.config.policy as GatewayOptions['policy'],
    token: tokenFile === undefined ? undefined : loadTokens(tokenFile)[0]?.token,
    hosts: (options['allowHost'] as readonly string[] | undefined) ?? [],
    ...(watching ? { logger: false as const } : telling ? { logger: personLog(out) } : {}),
  }).catch((error: unknown) => {
    throw tokenFault(error) ?? listenFault(error, host, port)
  })
  if (out.json) out.data({ event: 'listening', url: gateway.url })
  else {
    out.line(`${gateway.url}  →  ${upstream.join(', then ')}`)
    out.line(out.style('dim', 'give your agent the first URL as its base URL; stop with Ctrl-C'))
  }
  if (telling) gateway.watch.subscribe((note) => say(out, note === undefined ? undefined : noteLine(note)))
  const stopWatching = watching ? startWatching(() => watchLines(gateway.stats(), out.columns), out) : () => undefined
  await asked
  stopWatching()
  await gateway.close()
  const { totals } = gateway.stats()
  if (out.json) out.result(totals)
  else if (telling) out.line(totalsLine(totals))
  return EXIT_CODES.finished
}

// ---- details ----

/** The option that is wrong, by the name that it has here. */
function tokenFault(error: unknown): Fault | undefined {
  if (!isFault(error) || error.report.errors?.[0]?.field !== 'token') return undefined
  const { expected } = error.report.errors[0]
  return error.with({ error: `--host needs ${expected}: add --token-file FILE, which is made where it is missing` })
}

/** At a terminal: a line per request for people, in place of a line of JSON. */
function personLog(out: Context['out']): GatewayLog {
  const now = (): string => new Date().toISOString()
  return {
    info: (entry, text) => say(out, requestLine(entry, text, false, now())),
    warn: (entry, text) => say(out, requestLine(entry, text, true, now())),
  }
}

const STYLES = { good: 'green', warn: 'yellow', bad: 'red', dim: 'dim' } as const

function say(out: Context['out'], line: GatewayLine | undefined): void {
  if (line !== undefined) out.say(out.styleErr(STYLES[line.tone], line.text))
}

const REDRAW_MS = 250

/** On a terminal the lines are drawn in place; elsewhere each change of the text is printed once. */
function startWatching(lines: () => readonly string[], out: Context['out']): () => void {
  let drawn = 0
  let last = ''
  const draw = (): void => {
    const now = lines()
    const text = now.join('\n')
    if (text === last) return
    last = text
    if (out.isTerminal && drawn > 0) out.wipe(drawn)
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
