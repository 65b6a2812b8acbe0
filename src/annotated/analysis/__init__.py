"""Looking into a trained model: interventions, who sees whom, effects, scores."""
