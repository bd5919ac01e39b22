/** For Breakfall's own packages. Not public: it may change in any release. */
export { randomSequence } from './random.ts'
export type { Message } from './rehearsal/conversation.ts'
export { REHEARSAL_PROJECT, REHEARSAL_PROMPT } from './rehearsal/project.ts'
export { answerTo, scriptFor } from './rehearsal/script.ts'
export { createStepsTool } from './rehearsal/steps.ts'
export { TRIAL_FAULTS, trialPlans } from './trial/faults.ts'
export { startTrialServers, type TrialServers } from './trial/servers.ts'
export { type AgentRun, type Baseline, baselineOf, type TrialMode, type Verdict, verdictOf } from './trial/verdict.ts'
