/** Seeded fault plans, the proxies that inject them, and the model that rehearses with them. */
export { diceFor, throwDice } from './dice.ts'
export {
  type ChaosFault,
  COMMON_FAULTS,
  FAULT_KIND_NAMES,
  type FaultKind,
  FAULT_KINDS,
  HOLD_MS_MAX,
} from './fault-kinds.ts'
export type { Injection, ProxyEvent } from './injections.ts'
export { type Asked, faultFor, NO_FAULTS, type Plan, type PlanInput, readPlan } from './plan.ts'
export { FAULT_LINES, parsePlan } from './plan-text.ts'
export { type FaultProxy, type FaultProxyOptions, startFaultProxy } from './proxy.ts'
export { startTcpProxy, type TcpProxy, type TcpProxyOptions } from './tcp-proxy.ts'
export { type Toxic, TOXIC_TYPES, TOXICS, type ToxicType } from './toxics.ts'
export {
  fromAnthropic,
  fromOpenAi,
  type Message,
  type Move,
  type ToolCall,
  type Turn,
  turnOf,
} from './rehearsal/conversation.ts'
export { REHEARSAL_PROJECT, REHEARSAL_PROMPT } from './rehearsal/project.ts'
export { type Answer, answerTo, REHEARSAL_MODELS, type Script, scriptFor } from './rehearsal/script.ts'
export {
  type RehearsalModel,
  type RehearsalOptions,
  type RehearsalRequest,
  startRehearsalModel,
} from './rehearsal/server.ts'
export { cksum, createStepsTool, stepCommand, STEPS_FILE } from './rehearsal/steps.ts'
