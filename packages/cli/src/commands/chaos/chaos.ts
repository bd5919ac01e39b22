/** `breakfall chaos`: a fault proxy for your own agent, with a live table of the injected faults. */
import { existsSync, readFileSync } from 'node:fs'
import type * as Chaos from '@breakfall/chaos'
import type { Injection, Plan, ProxyEvent } from '@breakfall/chaos'
import { EXIT_CODES, Fault } from '@breakfall/faults'
import type { Context } from '../../command-line/context.ts'
import { listenFault } from '../../process/system-errors.ts'
import { untilSignal } from '../../terminal/interrupt.ts'
import type { Output } from '../../terminal/output.ts'
import { counted } from '../../text/amounts.ts'
import { shortened, tableOf } from '../../text/table.ts'

export type ChaosOptions = {
  readonly upstream?: string
  readonly rehearsal?: boolean
  readonly plan?: string
  readonly port: number
  readonly list?: boolean
}

export async function chaosCommand({ out }: Context, options: ChaosOptions): Promise<number> {
  const chaos = await import('@breakfall/chaos')
  if (options.list === true) return listFaults(chaos, out)
  const plan = planFrom(options.plan, chaos)
  if ((options.rehearsal === true) === (options.upstream !== undefined))
    throw new Fault('invalid_request', {
      error:
        options.rehearsal === true
          ? 'Pass either --upstream or --rehearsal, not both.'
          : 'The proxy needs something behind it: --upstream http://127.0.0.1:8080/v1, or --rehearsal for a scripted model',
    })
  out.surviveClosedStdout()
  const stopped = untilSignal()
  await using started = new AsyncDisposableStack() // closed in reverse order, even if a later part fails to start
  const upstream = options.upstream ?? (await rehearsalModel(chaos, started))
  const counts = new Map<string, number>()
  let requests = 0
  const { port } = options
  const proxy = await chaos
    .startFaultProxy({
      upstream,
      plan,
      port,
      onEvent: (event) => {
        if (event.type === 'request') requests++
        report(event, counts, out)
      },
    })
    .catch((error: unknown) => {
      throw listenFault(error, '127.0.0.1', port)
    })
  started.defer(() => proxy.close())
  if (out.json) out.data({ event: 'listening', url: proxy.url })
  else printHead(out, `${proxy.url}  →  ${upstream}`, plan)
  await stopped
  await started.disposeAsync()
  printTotals(requests, counts, out)
  return EXIT_CODES.finished
}

// ---- details ----

function listFaults(chaos: typeof Chaos, out: Output): number {
  const rows = chaos.FAULT_LINES.map((line) => line.split('  '))
  if (out.json) for (const [fault = '', does = ''] of rows) out.data({ fault, does })
  else for (const line of tableOf(rows)) out.line(line)
  if (out.json) out.result({ count: rows.length })
  return EXIT_CODES.finished
}

function printHead(out: Output, route: string, { seed, rate, at }: Plan): void {
  out.line(route)
  const about = `plan: seed ${seed}, rate ${rate}, ${at.length} fixed; use the first URL in your agent, stop with Ctrl-C\n`
  out.line(out.style('dim', about))
  out.line(out.style('bold', injectionRow('time', 'request', 'attempt', 'fault', 'after')))
}

async function rehearsalModel(chaos: typeof Chaos, started: AsyncDisposableStack): Promise<string> {
  const model = await chaos.startRehearsalModel({ chunkDelayMs: 5 })
  started.defer(() => model.close())
  return model.url
}

function planFrom(
  text: string | undefined,
  chaos: { readPlan(value: unknown): Plan; parsePlan(text: string): Plan },
): Plan {
  if (text === undefined) return chaos.parsePlan('rate=0.2')
  if (!existsSync(text)) {
    if (/^[^={]*(?:\/|\.json$)/.test(text))
      throw new Fault('invalid_request', { error: `There is no plan file ${text}` })
    return chaos.parsePlan(text)
  }
  try {
    return chaos.readPlan(JSON.parse(readFileSync(text, 'utf8')))
  } catch (cause) {
    if (cause instanceof SyntaxError)
      throw new Fault('invalid_request', { error: `The plan file ${text} is not JSON: ${cause.message}`, cause })
    throw cause
  }
}

function report(event: ProxyEvent, counts: Map<string, number>, out: Output): void {
  if (event.type !== 'injection') return
  const { injection } = event
  counts.set(injection.fault.kind, (counts.get(injection.fault.kind) ?? 0) + (injection.outcome === 'injected' ? 1 : 0))
  if (out.json) out.data({ event: 'injection', ...injection })
  else out.line(injectionLine(injection, out))
}

function injectionLine(injection: Injection, out: Output): string {
  const { kind, ...settings } = injection.fault
  const detail = Object.entries(settings)
    .filter(([, value]) => value !== '') // not set
    .map(([key, value]) => `${key}=${String(value)}`)
    .join(' ')
  const after = injection.outcome === 'missed' ? 'did not apply' : counted(injection.events, 'event')
  const text = injectionRow(
    injection.at.slice(11, 23),
    `${injection.method} ${injection.path} #${injection.request}`,
    String(injection.attempt),
    `${kind} ${detail}`.trim(),
    after,
  )
  return out.style(injection.outcome === 'missed' ? 'dim' : 'yellow', text)
}

const injectionRow = (time: string, request: string, attempt: string, fault: string, after: string): string =>
  `${time.padEnd(12)}  ${shortened(request, 36).padEnd(36)}  ${attempt.padStart(7)}  ${shortened(fault, 44).padEnd(44)}  ${after}`

function printTotals(requests: number, counts: ReadonlyMap<string, number>, out: Output): void {
  const injected = [...counts.values()].reduce((sum, count) => sum + count, 0)
  if (out.json) {
    out.result({ requests, injected, faults: Object.fromEntries(counts) })
    return
  }
  out.line(`\n${counted(requests, 'request')}, ${counted(injected, 'fault')} injected`)
  for (const [kind, count] of counts) out.line(`  ${String(count).padStart(5)} ${kind}`)
}
