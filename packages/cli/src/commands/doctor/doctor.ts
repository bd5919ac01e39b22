/** `breakfall doctor`: checks this machine the way a run would use it, and says how to fix each problem. */
import { Fault, type FaultReport } from '@breakfall/faults'
import type { Context } from '../../command-line/context.ts'
import type { ServedModel } from '../../config/model.ts'
import type { ResolvedConfig } from '../../config/resolve.ts'
import { currentFolderIfAny } from '../../process/current-folder.ts'
import { namesOfProcesses } from '../../sessions/background.ts'
import { Interrupt } from '../../terminal/interrupt.ts'
import type { Output } from '../../terminal/output.ts'
import { counted } from '../../text/amounts.ts'
import type { Finding } from './finding.ts'
import { checkDisk, checkNode, checkPort, checkSandbox, checkState, checkTokens } from './machine.ts'
import { checkServedModel, startModelOnce } from './model-server.ts'
import { checkDaemon, checkFleet, checkModel, checkRunner } from './servers.ts'
import { checkFolders, checkMcp, checkMounts, checkProviders, checkTelemetry } from './settings.ts'
import { backgroundFinding, checkJournals, checkLocalBoxes, checkStorage } from './storage.ts'
import { checkToolchains } from './toolchains.ts'

export type DoctorOptions = {
  /** Starts each model server that Breakfall would start, once. */
  readonly startModel?: boolean
}

export async function doctor(
  { config, configFault, out }: Context,
  { startModel = false }: DoctorOptions,
): Promise<number> {
  const { stateDir, loaded } = config
  const served = servedModels(config)
  if (startModel && served.length === 0) throw nothingToStart(config)
  const daemon = await checkDaemon(config)
  const findings: readonly Finding[] = [
    checkNode(),
    ...checkConfig(configFault),
    checkSandbox(),
    checkState(stateDir),
    checkDisk(stateDir),
    ...checkStorage(config, Date.now()),
    ...checkJournals(config, isOverAfter(JOURNALS_MS)),
    ...checkLocalBoxes(config),
    ...checkTokens(stateDir),
    await checkPort(config.port),
    daemon.finding,
    ...backgroundFinding(await namesOfProcesses(daemon.client, config)),
    ...checkMounts(config.box),
    ...checkFolders(config, daemon.folders ?? []),
    ...(await checkRunner(config)),
    ...(await checkFleet(config)),
    ...(await checkToolchains(config)),
    await checkModel(config, daemon.url),
    ...checkProviders(config.providers, config.childEnv),
    ...(await checkTelemetry(config.otlpEndpoint)),
    ...(await checkMcp(config.outside, config.childEnv, daemon.mcp ?? [])),
    ...(await findingsOfEach(served, (model) =>
      checkServedModel(model, { env: config.childEnv, folder: currentFolderIfAny() ?? '/' }),
    )),
    ...(startModel ? await startEach(served, config, daemon.url, out) : []),
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
  else out.line(`\n${conclusion(findings)}`)
  return bad === 0 ? 0 : 1
}

// ---- details, in the order they are used above ----

const JOURNALS_MS = 5_000 // a second reads about 100 MB

function isOverAfter(ms: number): () => boolean {
  const until = Date.now() + ms
  return () => Date.now() > until
}

/** It is said only if it is wrong: `config show` shows the rest. */
const checkConfig = (fault: Fault | undefined): readonly Finding[] =>
  fault === undefined
    ? []
    : [
        {
          check: 'config',
          verdict: 'bad',
          found: fault.error,
          fix: 'correct it; the other checks ran without your config files',
        },
      ]

/** The model servers that Breakfall starts. */
function servedModels({ model, providers }: ResolvedConfig): readonly ServedModel[] {
  const isReplaced = model.kind === 'remote' && !model.isFromFile
  return providers.flatMap((provider) => {
    const { name, serve, ...rest } = provider
    if (serve === undefined || (name === 'default' && isReplaced)) return []
    return [{ ...rest, kind: 'served', provider: name, command: serve.command, serve, name: undefined } as const]
  })
}

function nothingToStart({ model, loaded }: ResolvedConfig): Fault {
  const isReplaced = loaded.config.model?.serve !== undefined && model.kind === 'remote'
  const why = isReplaced
    ? `${model.origin} replaces [model.serve]`
    : 'there is no [model.serve] or [providers.NAME.serve] command in your config.toml'
  return new Fault('invalid_request', { error: `--start-model has nothing to start: ${why}` })
}

async function findingsOfEach<T>(
  items: readonly T[],
  check: (item: T) => Promise<readonly Finding[]>,
): Promise<readonly Finding[]> {
  const findings: Finding[] = []
  for (const item of items) findings.push(...(await check(item)))
  return findings
}

async function startEach(
  served: readonly ServedModel[],
  { childEnv: env }: ResolvedConfig,
  daemon: string | undefined,
  out: Output,
): Promise<readonly Finding[]> {
  using interrupt = new Interrupt(out)
  const { signal } = interrupt
  const onLoading = (sentence: string): void => out.say(out.styleErr('dim', sentence))
  return await findingsOfEach(served, async (model) => [
    await startModelOnce(model, { env, daemon, signal, onLoading }),
  ])
}

/** Not "ready" if a prompt would be refused. */
function conclusion(findings: readonly Finding[]): string {
  const bad = findings.filter(({ verdict }) => verdict === 'bad').length
  if (bad > 0) return `${counted(bad, 'problem')} to fix`
  const hasModel = !findings.some(({ check, verdict }) => check === 'model' && verdict === 'warn')
  return hasModel ? 'ready' : 'the machine is ready, but there is no model for a prompt yet: set one'
}

const MARKS = { ok: ['green', '✓'], warn: ['yellow', '!'], bad: ['red', '✗'] } as const

function linesOf({ check, verdict, found, fix, said = [] }: Finding, out: Output): readonly string[] {
  const [style, mark] = MARKS[verdict]
  const indent = `  ${''.padEnd(12)}`
  return [
    `${out.style(style, mark)} ${check.padEnd(12)} ${found}`,
    ...(fix === undefined ? [] : [`${indent} → ${fix}`]),
    ...said.map((line) => out.style('dim', `${indent} | ${line}`)),
  ]
}

const faultFor = (problems: readonly Finding[]): FaultReport =>
  new Fault('other', {
    error: `Problems to fix: ${problems.map(({ check, found }) => `${check} (${found})`).join('; ')}`,
  }).report
