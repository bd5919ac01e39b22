/** Child processes that fail well: lifecycle, diagnostics, restart, no orphans. */
export { type ChannelMessage, CHANNEL_ENV, type TerminationError } from './channel.ts'
export { type Clock, systemClock, within } from './clock.ts'
export {
  collectDiagnostics,
  type CollectorOptions,
  diagnose,
  type Diagnosis,
  type DiagnosticCollector,
  toDiagnostic,
} from './diagnostics.ts'
export { type Dropped } from './event-stream.ts'
export { describeExit, diagnoseExit, type ExitStatus, readExit } from './exit-status.ts'
export { headline } from './headline.ts'
export { type InFlightRequest, type RequestInit } from './in-flight.ts'
export { stripLogPrefix } from './log-prefix.ts'
export { sweepOrphans, type Swept } from './orphans.ts'
export { START_REASONS, type StartReason } from './preflight.ts'
export { type ProcessEntry, readProcess } from './process-table.ts'
export {
  type EndReason,
  type ExitKind,
  type ExitReport,
  type JudgedReport,
  type Phase,
  type RestartPlan,
} from './report.ts'
export { type GiveUpReason } from './restart-policy.ts'
export { type ModelServerSpec } from './model-spec.ts'
export { type ModelServer, serveModel } from './serve-model.ts'
export { type ServedRequest } from './served-request.ts'
export { RETRY_VERDICTS, type RetryVerdict, type Signature, SIGNATURES } from './signature-table.ts'
export {
  type Alive,
  type Launch,
  type LimitName,
  type Limits,
  type Probe,
  type Ready,
  SUPERVISOR_DEFAULTS,
  type SuperviseSpec,
} from './spec.ts'
export { supervise } from './supervise.ts'
export { type ChildEvent, type ChildState, type Supervised } from './supervised.ts'
