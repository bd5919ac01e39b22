/** `breakfall gateway`: the gateway in this process, until it is asked to end, with a live view on request. */
import { EXIT_CODES, Fault } from '@breakfall/faults'
import { type GatewayOptions, startGateway } from '@breakfall/gateway'
import { loadTokens } from '@breakfall/wire/node'
import type { Context } from '../program.ts'
import { watchLines } from '../render/gateway-watch.ts'
import { listenFault } from '../start-trouble.ts'
import { untilAsked } from '../until-asked.ts'

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
  const gateway = await startGateway({
    upstream,
    port,
    host,
    hold: (options['hold'] ?? loaded.config.gateway?.hold) as GatewayOptions['hold'],
    profile: options['profile'] as GatewayOptions['profile'],
    policy: loaded.config.policy as GatewayOptions['policy'],
    token: tokenFile === undefined ? undefined : loadTokens(tokenFile)[0]?.token,
    hosts: (options['allowHost'] as readonly string[] | undefined) ?? [],
    ...(watching ? { logger: false as const } : {}),
  }).catch((error: unknown) => {
    throw listenFault(error, host, port)
  })
  if (out.json) out.data({ event: 'listening', url: gateway.url })
  else {
    out.line(`${gateway.url}  →  ${upstream.join(', then ')}`)
    out.line(out.style('dim', 'give your agent the first URL as its base URL; stop with Ctrl-C'))
  }
  const stopWatching = watching ? startWatching(() => watchLines(gateway.stats(), out.columns), out) : () => undefined
  await untilAsked()
  stopWatching()
  await gateway.close()
  if (out.json) out.data({ event: 'result', ...gateway.stats().totals })
  return EXIT_CODES.finished
}

// ---- details ----

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
    if (out.isTerminal && drawn > 0) out.write(`\x1b[${drawn}A\x1b[J`)
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
