/** The options of a daemon: those of its engine, and those of its server. */
import { ENGINE_LIMITS, type EngineOptions } from '@breakfall/engine'
import type { ChaosTarget, ChaosView, WatchChange } from '@breakfall/wire'

/** Faults go to a proxy that is not ours, and this process may be their target: whoever started it does the rest. */
export type ChaosPort = {
  readonly read: () => Promise<ChaosView>
  readonly setPlan: (plan: unknown) => Promise<ChaosView>
  readonly injectNext: (fault: unknown) => Promise<ChaosView>
  readonly kill: (what: ChaosTarget) => Promise<void>
}

/** The folder with the built page, or the reason why there is none. */
export type ConsolePage = { readonly folder: string } | { readonly reason: string }

export type DaemonOptions = Omit<EngineOptions, 'limits'> & {
  /** Where others reach this daemon, if not at the address that it listens on. */
  readonly publicUrl?: string | undefined
  readonly host?: string | undefined
  /** Default: the port of the last daemon of this state folder, or a free one. */
  readonly port?: number | undefined
  /** False: the next daemon does not try this one's port. Default: true. */
  readonly keepPort?: boolean | undefined
  /** The built console, or why there is none. */
  readonly console?: ConsolePage | undefined
  /** What the gateway beside this daemon is doing, if there is one. */
  readonly gateway?: (() => NonNullable<WatchChange['gateway']>) | undefined
  /** The file with the documentation of a category. */
  readonly faultPage?: ((category: string) => string) | undefined
  /** Breaks things on request, for `breakfall demo`. Without it there are no such routes. */
  readonly chaos?: ChaosPort | undefined
  /** Host names that requests may use besides loopback and the bound address, for a proxy in front of the daemon. */
  readonly hosts?: readonly string[] | undefined
  readonly tokenFile?: string | undefined
  readonly logLevel?: string | undefined
  /** Where log lines go. Default: the process's stderr. */
  readonly logTo?: { write(line: string): void } | undefined
  /** More fields for `daemon.json`, for clients that look for this daemon. */
  readonly fileFields?: Readonly<Record<string, unknown>> | undefined
  /** For a single caller in this process: no file announces its address. */
  readonly isMomentary?: boolean | undefined
  readonly limits?: Partial<DaemonLimits> | undefined
}

export const DAEMON_LIMITS = {
  ...ENGINE_LIMITS,
  heartbeatMs: 15_000, // proxies drop a silent connection after 30 to 60 s
  readerLagBytesMax: 1024 * 1024, // a reader that reads nothing while this much is published is closed
  readerStallMsMax: 60_000, // or a reader that reads nothing for this long
  readerLingerMs: 5_000, // for a slow reader to receive what is in flight, and the reason
} as const

export type DaemonLimits = { readonly [Name in keyof typeof DAEMON_LIMITS]: number }
