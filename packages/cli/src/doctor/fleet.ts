/** The doctor's checks of a fleet: whether its daemons agree, and whether its runners can be used. Asks the running daemon. */
import type { DaemonList, RunnerView } from '@breakfall/wire'
import type { ResolvedConfig } from '../config/resolve.ts'
import { findDaemon, oneShotClient } from '../daemon/find.ts'
import { counted } from '../render/counted.ts'
import type { Finding } from './finding.ts'
import { cmd } from '../process/command-name.ts'

/** Nothing if no daemon runs or its store is not shared: the check of the daemon says so. */
export async function checkFleet(config: ResolvedConfig): Promise<readonly Finding[]> {
  try {
    const found = await findDaemon(config)
    if (found === undefined) return []
    const client = oneShotClient(found.address)
    const { daemons } = await client.daemons()
    if (daemons.length === 0) return []
    const { runners } = await client.runners()
    return [
      daemonsFinding(daemons),
      ...runnerFindings(runners, { needsOne: config.runner.kind === 'local', now: Date.now() }),
    ]
  } catch {
    return [] // the check of the daemon reports that
  }
}

/** Pure, as is `runnerFindings`. */
export function daemonsFinding(daemons: DaemonList['daemons']): Finding {
  const living = daemons.filter(({ state }) => state !== 'dead')
  const isSame = new Set(living.map(({ configHash }) => configHash)).size <= 1
  const found = `${counted(living.length, 'daemon')} share the store`
  if (isSame) return { check: 'fleet', verdict: 'ok', found }
  const fix = 'give all of them the same configuration and the same [fleet] keyFile, then restart them'
  return { check: 'fleet', verdict: 'warn', found: `${found}, but their configurations differ`, fix }
}

export function runnerFindings(
  runners: readonly RunnerView[],
  { needsOne, now }: { readonly needsOne: boolean; readonly now: number },
): readonly Finding[] {
  const check = 'runners'
  const start = `start one: ${cmd('runner')} --join http://DAEMON:PORT`
  if (runners.length === 0)
    return needsOne ? [{ check, verdict: 'warn', found: 'none has joined: every tool call waits', fix: start }] : []
  const isSilent = ({ state, lastSeen }: RunnerView): boolean =>
    state !== 'lost' && now - Date.parse(lastSeen) > SILENT_MS
  const silent = runners.filter(isSilent)
  const usable = runners.filter((runner) => runner.state === 'live' && !isSilent(runner))
  const full = usable.filter(({ boxes, capacity }) => boxes >= capacity)
  const found = `${usable.length} of ${counted(runners.length, 'runner')} can be used`
  const all: Finding[] = [
    usable.length === 0 ? { check, verdict: 'bad', found, fix: start } : { check, verdict: 'ok', found },
  ]
  if (silent.length > 0)
    all.push({
      check,
      verdict: 'warn',
      found: `not heard of for more than a minute: ${silent.map(({ runnerId }) => runnerId).join(', ')}`,
      fix: `start it again in its folder; if it is gone for good: ${cmd('runners')} drop ID`,
    })
  if (full.length > 0 && full.length === usable.length)
    all.push({ check, verdict: 'warn', found: 'all of them are full', fix: 'raise --capacity, or start another one' })
  return all
}

const SILENT_MS = 60_000 // the clocks of two machines may differ by a few seconds
