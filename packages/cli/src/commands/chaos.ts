/** `breakfall chaos`: the fault proxy for people's own agents, with a live table of what it injected. */
import { existsSync, readFileSync } from 'node:fs'
import type * as Chaos from '@breakfall/chaos'
import type { Injection, Plan, ProxyEvent } from '@breakfall/chaos'
import { EXIT_CODES, Fault } from '@breakfall/faults'
import type { Output } from '../render/output.ts'
import type { Context } from '../program.ts'
import { counted } from '../render/counted.ts'
import { listenFault } from '../process/start-errors.ts'
import { untilAsked } from '../process/until-signal.ts'

export async function chaosCommand({ options, out }: Context): Promise<number> {
  const chaos = await import('@breakfall/chaos')
  if (options['list'] === true) {
    for (const line of chaos.FAULT_LINES) {
      const [fault = '', does = ''] = line.split('  ')
      if (out.json) out.data({ fault, does })
      else out.line(line)
    }
    if (out.json) out.result({ count: chaos.FAULT_LINES.length })
    return EXIT_CODES.finished
  }
  const plan = planOf(options['plan'] as string | undefined, chaos)
  const isRehearsal = options['rehearsal'] === true
  const named = options['upstream'] as string | undefined
  if (isRehearsal === (named !== undefined))
    throw new Fault('invalid_request', {
      error: 'say what to put the proxy before: --upstream http://127.0.0.1:8080, or --rehearsal for a scripted model',
    })
  out.outlivesItsReader()
  const asked = untilAsked()
  await using started = new AsyncDisposableStack() // put away in reverse, also where a later part fails
  const upstream = named ?? (await rehearsalModel(chaos, started))
  const counts = new Map<string, number>()
  let requests = 0
  const port = options['port'] as number
  const proxy = await chaos
    .startFaultProxy({
      upstream,
      plan,
      port,
      onEvent: (event) => {
        if (event.type === 'request') requests++
        show(event, counts, out)
      },
    })
    .catch((error: unknown) => {
      throw listenFault(error, '127.0.0.1', port)
    })
  started.defer(() => proxy.close())
  if (out.json) out.data({ event: 'listening', url: proxy.url })
  else {
    out.line(`${proxy.url}  →  ${upstream}`)
    out.line(
      out.style(
        'dim',
        `plan: seed ${plan.seed}, rate ${plan.rate}, ${plan.at.length} fixed; point your agent at the first URL, stop with Ctrl-C\n`,
      ),
    )
    out.line(out.style('bold', row('time', 'request', 'try', 'fault', 'after')))
  }
  await asked
  await started.disposeAsync()
  closing(requests, counts, out)
  return EXIT_CODES.finished
}

// ---- details ----

async function rehearsalModel(chaos: typeof Chaos, started: AsyncDisposableStack): Promise<string> {
  const model = await chaos.startRehearsalModel({ chunkDelayMs: 5 })
  started.defer(() => model.close())
  return model.url
}

function planOf(
  text: string | undefined,
  chaos: { readPlan(value: unknown): Plan; parsePlan(text: string): Plan },
): Plan {
  if (text === undefined) return chaos.parsePlan('rate=0.2')
  if (!existsSync(text)) {
    if (/^[^={]*(?:\/|\.json$)/.test(text))
      throw new Fault('invalid_request', { error: `there is no plan file ${text}` })
    return chaos.parsePlan(text)
  }
  try {
    return chaos.readPlan(JSON.parse(readFileSync(text, 'utf8')))
  } catch (cause) {
    if (cause instanceof SyntaxError)
      throw new Fault('invalid_request', { error: `the plan ${text} is not JSON: ${cause.message}`, cause })
    throw cause
  }
}

function show(event: ProxyEvent, counts: Map<string, number>, out: Output): void {
  if (event.type !== 'injection') return
  const { injection } = event
  counts.set(injection.fault.kind, (counts.get(injection.fault.kind) ?? 0) + (injection.outcome === 'injected' ? 1 : 0))
  if (out.json) out.data({ event: 'injection', ...injection })
  else out.line(painted(injection, out))
}

function painted(injection: Injection, out: Output): string {
  const { kind, ...settings } = injection.fault
  const detail = Object.entries(settings)
    .filter(([, value]) => value !== '') // left out
    .map(([key, value]) => `${key}=${String(value)}`)
    .join(' ')
  const after = injection.outcome === 'missed' ? 'no place for it' : counted(injection.events, 'event')
  const text = row(
    injection.at.slice(11, 23),
    `${injection.method} ${injection.path} #${injection.request}`,
    String(injection.attempt),
    `${kind} ${detail}`.trim(),
    after,
  )
  return out.style(injection.outcome === 'missed' ? 'dim' : 'yellow', text)
}

const row = (time: string, request: string, attempt: string, fault: string, after: string): string =>
  `${time.padEnd(12)}  ${request.slice(0, 36).padEnd(36)}  ${attempt.padStart(3)}  ${fault.slice(0, 44).padEnd(44)}  ${after}`

function closing(requests: number, counts: ReadonlyMap<string, number>, out: Output): void {
  const injected = [...counts.values()].reduce((sum, count) => sum + count, 0)
  if (out.json) {
    out.result({ requests, injected, faults: Object.fromEntries(counts) })
    return
  }
  out.line(`\n${counted(requests, 'request')}, ${counted(injected, 'fault')} injected`)
  for (const [kind, count] of counts) out.line(`  ${String(count).padStart(5)} ${kind}`)
}
