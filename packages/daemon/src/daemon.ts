/** Serves an engine over HTTP, SSE and WebSocket: the engine first, then the server. Shutdown runs in reverse order. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Fault, redact } from '@breakfall/faults'
import { DAEMON_HEADER } from '@breakfall/wire'
import { bearerToken, createService, type HttpServer, refuseIfReadOnly, type Route } from '@breakfall/wire/node'
import { chaosHandlers } from './api/chaos.ts'
import { checkpointHandlers } from './api/checkpoints.ts'
import { ConsoleAuth, ticketsInMemory, ticketsInStore } from './api/console-auth.ts'
import { consoleHandlers } from './api/console.ts'
import { fleetHandlers } from './api/fleet.ts'
import { mcpHandlers } from './api/mcp.ts'
import { createMetrics } from './api/metrics.ts'
import { routesOf } from './api/routes.ts'
import { processHandlers } from './api/processes.ts'
import { runnerHandlers } from './api/runners.ts'
import { faultHistoryHandlers } from './api/fault-history.ts'
import { sessionHandlers } from './api/sessions.ts'
import { systemHandlers } from './api/system.ts'
import { parkedCategories } from './api/turn-metrics.ts'
import { WebSocketApi } from './api/websocket.ts'
import { findRunner, openEngine, Secrets, type Sessions, sharedStore, shownName } from '@breakfall/engine'
import { DAEMON_LIMITS, type DaemonLimits, type DaemonOptions } from './options.ts'
import manifest from '../package.json' with { type: 'json' }
import { readiness } from './readiness.ts'
import { listenAsBefore, notePort } from './last-port.ts'
import { logFault, logger } from './log.ts'
import { TokenFile } from './token-file.ts'
import { watching } from './watching.ts'

const { version } = manifest

const ANSWER_GRACE_MS = 250 // streams were closed before; any other response takes milliseconds

export type Daemon = {
  /** Where a program on this machine calls it. */
  readonly url: string
  readonly pid: number
  readonly tokenFile: string
  readonly token: string
  /** The same operations as over the API, for programs that embed the daemon. */
  readonly sessions: Sessions
  /** How many unfinished turns were recovered at the start. */
  readonly recovered: number
  /** The shared store, without its password, and who this daemon is in it. */
  readonly store: { readonly store: string; readonly bootId: string; readonly name: string } | undefined
  /** Finds, adopts or starts the runner now. Undefined if it cannot be reached yet. */
  findRunner(): Promise<{ readonly url: string; readonly runnerId: string } | undefined>
  /** Hands over running turns and closes everything. */
  close(options?: CloseOptions): Promise<void>
}

type CloseOptions = {
  /** Also ends the runner on this machine. */
  readonly stopRunner?: boolean
  /** Releases the boxes of idle sessions first. */
  readonly releaseBoxes?: boolean
}

export async function startDaemon(options: DaemonOptions): Promise<Daemon> {
  const limits: DaemonLimits = { ...DAEMON_LIMITS, ...options.limits }
  const { stateDir } = options
  mkdirSync(stateDir, { recursive: true, mode: 0o700 })
  const tokenFile = options.tokenFile ?? join(stateDir, 'daemon.token')
  const hosts = (options.hosts ?? []).map((host) => host.toLowerCase().replace(/:\d+$/, ''))
  const secrets = new Secrets()
  const log = logger(options, secrets)
  const tokens = new TokenFile(tokenFile, { secrets, log })
  const [first] = tokens.grants
  const token = (tokens.grants.find(({ isReadOnly }) => !isReadOnly) ?? first)?.token ?? ''
  const opened = await openEngine({ ...options, limits }, { log, secrets })
  const { sessions, engine, store, runners, config, providers, observer } = opened
  try {
    const metrics = createMetrics({
      turnsDriven: () => engine.driven,
      sessionsLive: () => sessions.loader.count,
      store,
      drivenTurns: () => engine.drivenTurns(),
      parkedOn: () => parkedCategories(store),
    })
    const onError = (err: unknown): void => log.warn({ err }, 'a watch could not be served')
    const { system, hub } = watching({ ...opened, options, version, tokenFile, onError })
    observer.used.add((usage, cost) => metrics.used(usage, cost))
    observer.event.add((event) => metrics.event(event))
    observer.changed.add((sessionId) => hub.changed(sessionId))
    const recovered = await opened.recover()
    const tickets = store.runners === undefined ? ticketsInMemory() : ticketsInStore(store.runners)
    const auth = new ConsoleAuth(
      () => tokens.grants,
      () => store.now(),
      tickets,
    )
    const name = shownName(store)
    const sockets = new WebSocketApi({
      name,
      sessions,
      hub,
      limits,
      hosts,
      grantOf: (given) => auth.grantOf(given),
      onFault: (fault) => logFault(log, fault, {}),
    })
    metrics.countSockets(() => sockets.connections)
    const routes: readonly Route[] = routesOf({
      ...sessionHandlers({ ...opened, system, limits }),
      ...systemHandlers({
        ...opened,
        system,
        hub,
        version,
        limits,
        options,
        model: async () => {
          const { name: model, baseUrl } = (await config.read()).model
          return { name: model, baseUrl: providers.viewOf(null)?.baseUrl ?? redact(baseUrl) }
        },
        ready: () => readiness(store, { hasRunner: runners.known.length > 0, isClosing: opened.lifecycle.isDraining }),
        metricsText: () => metrics.text(),
        routes: () => routes,
      }),
      ...checkpointHandlers(opened.undoing),
      ...processHandlers(opened.processes),
      ...mcpHandlers(opened.mcpServers),
      ...fleetHandlers(store),
      ...runnerHandlers(opened.runnerFleet),
      ...consoleHandlers(auth, options.console ?? NO_CONSOLE),
      ...faultHistoryHandlers(store),
      ...chaosHandlers(options.chaos),
    })
    const service = createService({
      upgrade: (req, socket, head) => sockets.upgrade(req, socket, head),
      routes,
      boundary: 'daemon',
      hosts,
      headers: { [DAEMON_HEADER]: name },
      authorize: (req) => {
        const grant = auth.grantOf(bearerToken(req))
        if (grant === undefined) throw new Fault('unauthorized')
        refuseIfReadOnly(grant, req.method)
      },
      onAnswer: (answer) => metrics.request(answer),
      onFault: (fault, call) => logFault(log, fault, call),
    })
    const { url, localUrl, port } = await listen(service, options)
    try {
      if (options.isMomentary !== true) {
        writeDaemonFile(stateDir, { url: localUrl, tokenFile, ...options.fileFields })
        if (options.keepPort !== false) notePort(stateDir, port)
      }
    } catch (error) {
      await service.close({ graceMs: 0 }) // a server that no client can find would keep the process alive
      throw error
    }
    log.info({ url }, 'listening')
    await opened.start(options.publicUrl ?? url)
    let closing: Promise<void> | undefined
    const close = async ({ stopRunner, releaseBoxes }: CloseOptions): Promise<void> => {
      hub.close()
      await opened.handOver({ releaseBoxes })
      sockets.close()
      await service.close({ graceMs: Math.min(ANSWER_GRACE_MS, limits.shutdownMs) })
      await opened.close({ stopRunner })
      rmSync(join(stateDir, 'daemon.json'), { force: true })
    }
    return {
      url: localUrl,
      pid: process.pid,
      tokenFile,
      token,
      sessions,
      recovered,
      store: sharedStore(options, store),
      findRunner: () => findRunner(runners, log),
      close: (how = {}) => (closing ??= close(how)),
    }
  } catch (error) {
    await store.close()
    throw error
  }
}

// ---- details, in the order they are used above ----

/** Without a port, a momentary daemon leaves the last one to the next lasting daemon. */
const listen = (service: HttpServer, { port, host, stateDir, isMomentary = false }: DaemonOptions) =>
  port === undefined && !isMomentary ? listenAsBefore(service, stateDir, host) : service.listen(port ?? 0, host)

const NO_CONSOLE = { reason: 'This daemon serves no console. Start one with "breakfall up".' }

function writeDaemonFile(stateDir: string, fields: object): void {
  const content = { ...fields, pid: process.pid, version }
  writeFileSync(join(stateDir, 'daemon.json'), JSON.stringify(content), { mode: 0o600 })
}
