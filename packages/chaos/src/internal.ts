/** For Breakfall's own packages. Not public: it may change in any release. */
export { randomSequence } from './random.ts'
export type { Message } from './rehearsal/conversation.ts'
export { REHEARSAL_PROJECT, REHEARSAL_PROMPT } from './rehearsal/project.ts'
export { answerTo, scriptFor } from './rehearsal/script.ts'
export { createStepsTool } from './rehearsal/steps.ts'
