/** `breakfall doctor`: checks this machine the way a run would use it, and says how to fix each problem. */
import { Fault, type FaultReport } from '@breakfall/faults'
import type { ResolvedConfig } from '../config/resolve.ts'
import type { Finding } from '../doctor/finding.ts'
import { checkDisk, checkNode, checkPort, checkSandbox, checkState, checkTokens } from '../doctor/machine.ts'
import { checkDaemon, checkModel, checkRunner } from '../doctor/servers.ts'
import { counted } from '../render/counted.ts'
import type { Output } from '../render/output.ts'

export async function doctor(config: ResolvedConfig, out: Output): Promise<number> {
  const { stateDir, loaded } = config
  const daemon = await checkDaemon(config)
  const findings: readonly Finding[] = [
    checkNode(),
    checkSandbox(),
    checkState(stateDir),
    checkDisk(stateDir),
    ...checkTokens(stateDir),
    await checkPort(config.port),
    daemon.finding,
    ...(await checkRunner(config)),
    await checkModel(config, daemon.url),
    ...loaded.warnings.map((found) => ({ check: 'environment', verdict: 'warn', found }) as const),
  ]
  const problems = findings.filter(({ verdict }) => verdict === 'bad')
  for (const finding of findings) {
    if (out.json) out.data(finding)
    else for (const line of linesOf(finding, out)) out.line(line)
  }
  const bad = problems.length
  if (out.json)
    out.result({
      ...(bad === 0 ? {} : { outcome: 'failed', fault: faultFor(problems) }),
      bad,
      findings: findings.length,
    })
  else out.line(bad === 0 ? '\nready' : `\n${counted(bad, 'problem')} to fix`)
  return bad === 0 ? 0 : 1
}

// ---- details, in the order they are used above ----

const MARKS = { ok: ['green', '✓'], warn: ['yellow', '!'], bad: ['red', '✗'] } as const

function linesOf({ check, verdict, found, fix }: Finding, out: Output): readonly string[] {
  const [style, mark] = MARKS[verdict]
  const line = `${out.style(style, mark)} ${check.padEnd(12)} ${found}`
  return fix === undefined ? [line] : [line, `  ${''.padEnd(12)} → ${fix}`]
}

const faultFor = (problems: readonly Finding[]): FaultReport =>
  new Fault('other', {
    error: `Problems to fix: ${problems.map(({ check, found }) => `${check} (${found})`).join('; ')}`,
  }).report
