/** Answering: on a question's own route, whether a ticket asks or the agent itself. */
import { api, got, type Schemas } from "../api/client.ts";

export type Question = Schemas["Question"];

export function answerQuestion(questionId: string, answer: string): Promise<Question> {
  return got(
    api.POST("/v1/questions/{question_id}/answer", {
      params: { path: { question_id: questionId } },
      body: { answer },
    }),
  );
}
