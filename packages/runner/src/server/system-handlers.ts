/** Identity, configuration, API description and metrics of the runner. */
import { existsSync, realpathSync } from 'node:fs'
import { EXEC_DEFAULTS, EXEC_SIGNALS, openApiDocument } from '@breakfall/wire'
import { restrictsUserNamespaces } from '@breakfall/supervisor/platform'
import { countBoxes } from '../box/quota.ts'
import { RUNNER_DEFAULTS } from '../lib/defaults.ts'
import { RUNNER_ROUTES } from '../contract/routes.ts'
import type { RunnerHost } from '../host/host.ts'
import { type Lack, lacksOf } from '../isolation/missing-capabilities.ts'
import type { ApiContext, Handler } from './handler-context.ts'

export function systemHandlers(context: ApiContext): Record<'health' | 'config' | 'openapi' | 'metrics', Handler> {
  const { identity, host } = context
  const document = openApiDocument(
    { title: 'Breakfall runner', version: identity.version },
    Object.values(RUNNER_ROUTES),
  )
  return {
    health: () => {
      const { runnerId, bootId, version } = identity
      return { status: 200, json: { status: 'ok', runnerId, bootId, version } }
    },
    config: () => ({ status: 200, json: { ...identity, ...config(context) } }),
    openapi: () => ({ status: 200, json: document }),
    metrics: async ({ res }) => {
      const text = await context.metrics.text(context.boxes, host.queue)
      res.writeHead(200, { 'content-type': context.metrics.contentType }).end(text)
      return undefined
    },
  }
}

/** Read when asked: a program may be installed meanwhile. */
function lacksHere({ isolation, keyring, sharedNetwork, programs, cgroups }: RunnerHost): readonly Lack[] {
  const real = (path: string | null): string | null => (path !== null && existsSync(path) ? realpathSync(path) : null)
  return lacksOf({
    level: isolation.level,
    because: isolation.because,
    isRoot: process.getuid?.() === 0,
    seccomp: isolation.seccomp !== null,
    keyring: keyring.length > 0,
    sharedNetwork,
    nsenter: real(programs.nsenter),
    ip: real(programs.ip),
    perl: real(programs.perl),
    setpriv: isolation.setpriv,
    missingControllers: (['memory', 'pids', 'cpu'] as const).filter((name) => !cgroups.has(name)),
    appArmorRestricts: restrictsUserNamespaces(),
  })
}

function config({ host, boxes }: ApiContext): object {
  const { isolation, cgroups, machine, limits } = host
  const { retention } = limits
  return {
    isolation: {
      level: isolation.level,
      because: isolation.because,
      memoryLimit: cgroups.has('memory'),
      pidsLimit: cgroups.has('pids'),
      cpuLimit: cgroups.has('cpu'),
      seccomp: isolation.seccomp !== null,
      keyring: host.keyring.length > 0,
      sharedNetwork: host.sharedNetwork,
      lacks: lacksHere(host),
      wholeTree: isolation.level === 'bwrap' || cgroups.holdsTrees,
    },
    workspaces: host.rules.allowed,
    allowPorts: host.allowPorts,
    boxes: countBoxes(boxes.all()),
    limits: {
      boxesMax: limits.boxesMax,
      boxesKeptMax: limits.boxesKeptMax,
      memoryMbMax: machine.memoryMb,
      cpusMax: machine.cpus,
      filePutBytesMax: RUNNER_DEFAULTS.filePutBytesMax,
      stdinBytesMax: RUNNER_DEFAULTS.stdinBytesMax,
      waitMsMax: RUNNER_DEFAULTS.waitMsMax,
    },
    defaults: {
      box: {
        memoryMb: RUNNER_DEFAULTS.memoryMb,
        pids: RUNNER_DEFAULTS.pids,
        cpus: null,
        execsMax: RUNNER_DEFAULTS.execsMax,
        processesMax: RUNNER_DEFAULTS.processesMax,
      },
      exec: EXEC_DEFAULTS,
    },
    retention: {
      outputMs: retention.ms,
      outputBytesPerBox: retention.bytesPerBox,
      recordMs: retention.recordMs,
      recordsPerBox: retention.recordsPerBox,
    },
    signals: EXEC_SIGNALS,
  }
}
